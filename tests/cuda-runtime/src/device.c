/* Devices, contexts, errors. The device is an H100 as far as PyTorch looks; its memory is what the driver has. */
#include "runtime.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Of the runtime, and of the driver: what PyTorch was built for. */
static const int kVersion = 13020;

enum { kDevices = 16, kThreads = 1024, kProcessors = 132, kShared = 49152, kSharedOptin = 232448, kRegisters = 65536 };

static CUcontext contexts[kDevices];
static __thread int current;
static __thread cudaError_t last;

cudaError_t done(int code) {
  if (code != 0 && code != cudaErrorNotReady) {
    last = (cudaError_t)code;
  }
  return (cudaError_t)code;
}

int zico_runtime_unsupported(const char* name) {
  if (getenv("ZICO_RUNTIME_LOG") != NULL) {
    fprintf(stderr, "cuda-runtime: %s is not supported\n", name);
  }
  return (int)done(cudaErrorNotSupported);
}

cudaError_t enter(void) {
  CUcontext context = __atomic_load_n(&contexts[current], __ATOMIC_ACQUIRE);
  if (context == NULL) {
    int code = (int)cuInit(0);
    /* Two threads at once get the same context, retained twice. */
    code = code ? code : (int)cuDevicePrimaryCtxRetain(&context, current);
    if (code != 0) {
      return done(code);
    }
    __atomic_store_n(&contexts[current], context, __ATOMIC_RELEASE);
  }
  CUcontext now = NULL;
  cuCtxGetCurrent(&now);
  return now == context ? cudaSuccess : done((int)cuCtxSetCurrent(context));
}

cudaError_t cudaGetLastError(void) {
  cudaError_t code = last;
  last = cudaSuccess;
  return code;
}

cudaError_t cudaPeekAtLastError(void) { return last; }

const char* cudaGetErrorString(cudaError_t error) {
  const char* text = NULL;
  cuGetErrorString((CUresult)error, &text);
  return text != NULL ? text : error == cudaErrorNotSupported ? "operation not supported" : "unrecognized error code";
}

const char* cudaGetErrorName(cudaError_t error) {
  const char* name = NULL;
  cuGetErrorName((CUresult)error, &name);
  return name != NULL ? name : "unrecognized error code";
}

cudaError_t cudaGetDeviceCount(int* count) {
  int code = (int)cuInit(0);
  return done(code ? code : (int)cuDeviceGetCount(count));
}

cudaError_t cudaGetDevice(int* device) {
  *device = current;
  return cudaSuccess;
}

cudaError_t cudaSetDevice(int device) {
  int count = 0;
  cudaError_t error = cudaGetDeviceCount(&count);
  if (error != cudaSuccess) {
    return error;
  }
  if (device < 0 || device >= count || device >= kDevices) {
    return done(cudaErrorInvalidDevice);
  }
  current = device;
  return enter();
}

cudaError_t cudaDriverGetVersion(int* version) {
  *version = kVersion;
  return cudaSuccess;
}

cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = kVersion;
  return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int* value, enum cudaDeviceAttr attribute, int device) {
  (void)device;
  switch ((int)attribute) {
    case cudaDevAttrMaxThreadsPerBlock: *value = kThreads; break;
    case cudaDevAttrMaxThreadsPerMultiProcessor: *value = 2 * kThreads; break;
    case cudaDevAttrMultiProcessorCount: *value = kProcessors; break;
    case cudaDevAttrMaxSharedMemoryPerBlock: *value = kShared; break;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin: *value = kSharedOptin; break;
    case cudaDevAttrMaxGridDimX: *value = 2147483647; break;
    case cudaDevAttrMaxGridDimY: *value = 65535; break;
    case cudaDevAttrComputeCapabilityMajor: *value = 9; break;
    case cudaDevAttrWarpSize: *value = 32; break;
    /* What the device has not. */
    default: *value = 0; break;
  }
  return cudaSuccess;
}

cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp* properties, int device) {
  size_t memory = 0;
  int code = (int)cuInit(0);
  code = code ? code : (int)cuDeviceTotalMem(&memory, device);
  if (code != 0) {
    return done(code);
  }
  memset(properties, 0, sizeof *properties);
  snprintf(properties->name, sizeof properties->name, "a device without arithmetic");
  cuDeviceGetUuid((CUuuid*)&properties->uuid, device);
  properties->totalGlobalMem = memory;
  properties->major = 9;
  properties->multiProcessorCount = kProcessors;
  properties->warpSize = 32;
  properties->maxThreadsPerBlock = kThreads;
  properties->maxThreadsPerMultiProcessor = 2 * kThreads;
  properties->maxBlocksPerMultiProcessor = 32;
  properties->sharedMemPerBlock = kShared;
  properties->sharedMemPerBlockOptin = kSharedOptin;
  properties->sharedMemPerMultiprocessor = kSharedOptin + 1024;
  properties->regsPerBlock = properties->regsPerMultiprocessor = kRegisters;
  properties->maxGridSize[0] = 2147483647;
  properties->maxGridSize[1] = properties->maxGridSize[2] = 65535;
  properties->maxThreadsDim[0] = properties->maxThreadsDim[1] = kThreads;
  properties->maxThreadsDim[2] = 64;
  properties->l2CacheSize = 50 << 20;
  properties->textureAlignment = 512;
  properties->memoryBusWidth = 5120;
  return cudaSuccess;
}

cudaError_t cudaDeviceGetPCIBusId(char* id, int len, int device) {
  return done((int)cuDeviceGetPCIBusId(id, len, device));
}

cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  *least = 0;
  *greatest = -5;
  return cudaSuccess;
}

cudaError_t cudaDeviceCanAccessPeer(int* can, int device, int peer) {
  (void)device, (void)peer;
  *can = 0;
  return cudaSuccess;
}

cudaError_t cudaDeviceSynchronize(void) { DRIVER(cuCtxSynchronize()); }

/* The driver's functions by their names in cuda.h, which are macros for the newest version there. */
cudaError_t cudaGetDriverEntryPointByVersion(const char* name, void** function, unsigned version,
                                             unsigned long long flags, enum cudaDriverEntryPointQueryResult* result) {
  (void)version, (void)flags;
  static const char* const suffixes[] = {"_v2", ""};
  *function = NULL;
  for (size_t at = 0; at < 2 && *function == NULL; at++) {
    char full[128];
    snprintf(full, sizeof full, "%s%s", name, suffixes[at]);
    *function = dlsym(RTLD_DEFAULT, full);
  }
  if (result != NULL) {
    *result = *function != NULL ? cudaDriverEntryPointSuccess : cudaDriverEntryPointSymbolNotFound;
  }
  return cudaSuccess;
}
