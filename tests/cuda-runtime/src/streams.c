/* Streams and events: the driver's. Nothing is ever captured. */
#include "runtime.h"

CUstream driver_stream(cudaStream_t stream) { return stream == cudaStreamLegacy ? NULL : (CUstream)stream; }

cudaError_t cudaStreamCreate(cudaStream_t* stream) { return cudaStreamCreateWithFlags(stream, 0); }

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
  DRIVER(cuStreamCreate((CUstream*)stream, flags));
}

cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned flags, int priority) {
  DRIVER(cuStreamCreateWithPriority((CUstream*)stream, flags, priority));
}

cudaError_t cudaStreamDestroy(cudaStream_t stream) { DRIVER(cuStreamDestroy(driver_stream(stream))); }

cudaError_t cudaStreamSynchronize(cudaStream_t stream) { DRIVER(cuStreamSynchronize(driver_stream(stream))); }

cudaError_t cudaStreamQuery(cudaStream_t stream) { DRIVER(cuStreamQuery(driver_stream(stream))); }

cudaError_t cudaStreamGetPriority(cudaStream_t stream, int* priority) {
  (void)stream;
  *priority = 0;
  return cudaSuccess;
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags) {
  DRIVER(cuStreamWaitEvent(driver_stream(stream), (CUevent)event, flags));
}

cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void* argument) {
  DRIVER(cuLaunchHostFunc(driver_stream(stream), function, argument));
}

cudaError_t cudaStreamIsCapturing(cudaStream_t stream, enum cudaStreamCaptureStatus* status) {
  (void)stream;
  *status = cudaStreamCaptureStatusNone;
  return cudaSuccess;
}

cudaError_t cudaStreamGetCaptureInfo(cudaStream_t stream, enum cudaStreamCaptureStatus* status,
                                     unsigned long long* id, cudaGraph_t* graph, const cudaGraphNode_t** dependencies,
                                     const cudaGraphEdgeData** edges, size_t* count) {
  (void)graph, (void)dependencies, (void)edges;
  if (id != NULL) {
    *id = 0;
  }
  if (count != NULL) {
    *count = 0;
  }
  return cudaStreamIsCapturing(stream, status);
}

cudaError_t cudaThreadExchangeStreamCaptureMode(enum cudaStreamCaptureMode* mode) {
  static __thread enum cudaStreamCaptureMode now = cudaStreamCaptureModeGlobal;
  enum cudaStreamCaptureMode before = now;
  now = *mode;
  *mode = before;
  return cudaSuccess;
}

cudaError_t cudaEventCreate(cudaEvent_t* event) { return cudaEventCreateWithFlags(event, 0); }

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  DRIVER(cuEventCreate((CUevent*)event, flags));
}

cudaError_t cudaEventDestroy(cudaEvent_t event) { DRIVER(cuEventDestroy((CUevent)event)); }

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  DRIVER(cuEventRecord((CUevent)event, driver_stream(stream)));
}

cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream, unsigned flags) {
  (void)flags;
  return cudaEventRecord(event, stream);
}

cudaError_t cudaEventQuery(cudaEvent_t event) { DRIVER(cuEventQuery((CUevent)event)); }

cudaError_t cudaEventSynchronize(cudaEvent_t event) { DRIVER(cuEventSynchronize((CUevent)event)); }

cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t start, cudaEvent_t end) {
  DRIVER(cuEventElapsedTime(milliseconds, (CUevent)start, (CUevent)end));
}
