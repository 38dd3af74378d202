/* Kernels. A launch is work of its stream that takes ZICO_RUNTIME_KERNEL_NS nanoseconds (20000) and touches nothing. */
#include "runtime.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* The driver in software knows this kernel by its name: it takes the time that it is given. */
static const char kImage[] =
    ".version 7.0\n.target sm_70\n.address_size 64\n.visible .entry zico_spin(.param .u64 time) { ret; }\n";

static CUfunction spin;
static unsigned long long time_;
static pthread_once_t once = PTHREAD_ONCE_INIT;

/* In the context of the first launch. The driver in software has modules without contexts. */
static void load(void) {
  CUmodule module = NULL;
  const char* setting = getenv("ZICO_RUNTIME_KERNEL_NS");
  time_ = setting != NULL ? strtoull(setting, NULL, 10) : 20000;
  if (cuModuleLoadData(&module, kImage) == 0) {
    cuModuleGetFunction(&spin, module, "zico_spin");
  }
}

cudaError_t launch(cudaStream_t stream) {
  cudaError_t entered = enter();
  if (entered != cudaSuccess) {
    return entered;
  }
  pthread_once(&once, load);
  void* parameters[] = {&time_};
  return done((int)cuLaunchKernel(spin, 1, 1, 1, 1, 1, 1, 0, driver_stream(stream), parameters, NULL));
}

/* For the libraries above the runtime. */
int zico_runtime_launch(void* stream) { return (int)launch((cudaStream_t)stream); }

cudaError_t cudaLaunchKernel(const void* function, dim3 grid, dim3 block, void** arguments, size_t shared,
                             cudaStream_t stream) {
  (void)function, (void)grid, (void)block, (void)arguments, (void)shared;
  return launch(stream);
}

cudaError_t cudaLaunchCooperativeKernel(const void* function, dim3 grid, dim3 block, void** arguments, size_t shared,
                                        cudaStream_t stream) {
  return cudaLaunchKernel(function, grid, block, arguments, shared, stream);
}

cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t* config, const void* function, void** arguments) {
  (void)function, (void)arguments;
  return launch(config->stream);
}

cudaError_t cudaFuncGetAttributes(struct cudaFuncAttributes* attributes, const void* function) {
  (void)function;
  memset(attributes, 0, sizeof *attributes);
  attributes->maxThreadsPerBlock = 1024;
  attributes->numRegs = 32;
  attributes->binaryVersion = attributes->ptxVersion = 90;
  attributes->maxDynamicSharedSizeBytes = 232448;
  return cudaSuccess;
}

cudaError_t cudaFuncSetAttribute(const void* function, enum cudaFuncAttribute attribute, int value) {
  (void)function, (void)attribute, (void)value;
  return cudaSuccess;
}

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, const void* function, int threads,
                                                          size_t shared) {
  (void)function, (void)threads, (void)shared;
  *blocks = 2;
  return cudaSuccess;
}

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks, const void* function, int threads,
                                                                   size_t shared, unsigned flags) {
  (void)flags;
  return cudaOccupancyMaxActiveBlocksPerMultiprocessor(blocks, function, threads, shared);
}

/* What a compiler makes of <<<>>> and of the kernels of a file. */

enum { kDepth = 16 };

typedef struct {
  dim3 grid, block;
  size_t shared;
  cudaStream_t stream;
} Configuration;

static __thread Configuration pushed[kDepth];
static __thread int depth;

unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared, cudaStream_t stream) {
  if (depth == kDepth) {
    return 1;
  }
  pushed[depth++] = (Configuration){grid, block, shared, stream};
  return 0;
}

cudaError_t __cudaPopCallConfiguration(dim3* grid, dim3* block, size_t* shared, void* stream) {
  if (depth == 0) {
    return done(cudaErrorMissingConfiguration);
  }
  Configuration* top = &pushed[--depth];
  *grid = top->grid;
  *block = top->block;
  *shared = top->shared;
  *(cudaStream_t*)stream = top->stream;
  return cudaSuccess;
}

cudaError_t __cudaGetKernel(cudaKernel_t* kernel, const void* function) {
  *kernel = (cudaKernel_t)function;
  return cudaSuccess;
}

cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void** arguments, size_t shared,
                               cudaStream_t stream) {
  return cudaLaunchKernel(kernel, grid, block, arguments, shared, stream);
}

void** __cudaRegisterFatBinary(void* binary) {
  static void* handle[1];
  (void)binary;
  return handle;
}

void __cudaRegisterFatBinaryEnd(void** handle) { (void)handle; }

void __cudaUnregisterFatBinary(void** handle) { (void)handle; }

void __cudaRegisterFunction(void** handle, const char* host, char* device, const char* name, int threads, void* thread,
                            void* block, void* block_size, void* grid_size, int* warp) {
  (void)handle, (void)host, (void)device, (void)name, (void)threads;
  (void)thread, (void)block, (void)block_size, (void)grid_size, (void)warp;
}

void __cudaRegisterVar(void** handle, char* host, char* device, const char* name, int extern_, size_t size, int constant,
                       int global) {
  (void)handle, (void)host, (void)device, (void)name, (void)extern_, (void)size, (void)constant, (void)global;
}
