/* Memory, copies and fills: all of it is the driver's. */
#include "runtime.h"

#include <string.h>

static CUdeviceptr address(const void* pointer) { return (CUdeviceptr)pointer; }

cudaError_t cudaMalloc(void** block, size_t bytes) {
  *block = NULL;
  if (bytes == 0) {
    return cudaSuccess;
  }
  DRIVER(cuMemAlloc((CUdeviceptr*)block, bytes));
}

cudaError_t cudaFree(void* block) { DRIVER(cuMemFree(address(block))); }

cudaError_t cudaMemGetInfo(size_t* free_, size_t* total) { DRIVER(cuMemGetInfo(free_, total)); }

cudaError_t cudaHostAlloc(void** block, size_t bytes, unsigned flags) { DRIVER(cuMemHostAlloc(block, bytes, flags)); }

cudaError_t cudaMallocHost(void** block, size_t bytes) { return cudaHostAlloc(block, bytes, 0); }

cudaError_t cudaFreeHost(void* block) {
  if (block == NULL) {
    return cudaSuccess;
  }
  DRIVER(cuMemFreeHost(block));
}

cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, enum cudaMemcpyKind kind) {
  (void)kind;
  DRIVER(cuMemcpy(address(to), address(from), bytes));
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, enum cudaMemcpyKind kind, cudaStream_t stream) {
  (void)kind;
  DRIVER(cuMemcpyAsync(address(to), address(from), bytes, driver_stream(stream)));
}

cudaError_t cudaMemset(void* to, int value, size_t bytes) { return cudaMemsetAsync(to, value, bytes, NULL); }

cudaError_t cudaMemsetAsync(void* to, int value, size_t bytes, cudaStream_t stream) {
  DRIVER(cuMemsetD8Async(address(to), (unsigned char)value, bytes, driver_stream(stream)));
}

/* Symbols are variables of kernels, which do nothing. */
cudaError_t cudaMemcpyToSymbol(const void* symbol, const void* from, size_t bytes, size_t offset,
                               enum cudaMemcpyKind kind) {
  (void)symbol, (void)from, (void)bytes, (void)offset, (void)kind;
  return cudaSuccess;
}

cudaError_t cudaPointerGetAttributes(struct cudaPointerAttributes* attributes, const void* pointer) {
  memset(attributes, 0, sizeof *attributes);
  attributes->type = cudaMemoryTypeUnregistered;
  cudaError_t entered = enter();
  unsigned kind = 0;
  if (entered != cudaSuccess || cuPointerGetAttribute(&kind, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address(pointer)) != 0) {
    return entered;
  }
  if (kind == CU_MEMORYTYPE_DEVICE) {
    attributes->type = cudaMemoryTypeDevice;
    attributes->devicePointer = (void*)pointer;
    return cudaGetDevice(&attributes->device);
  }
  attributes->type = cudaMemoryTypeHost;
  attributes->hostPointer = attributes->devicePointer = (void*)pointer;
  return cudaSuccess;
}
