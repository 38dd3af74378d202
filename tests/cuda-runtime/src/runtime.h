/* What the files of the runtime share. Handles of streams and events are those of the driver below. */
#ifndef ZICO_RUNTIME_H
#define ZICO_RUNTIME_H

#include <cuda.h>
#include <cuda_runtime_api.h>
#include <stddef.h>

/* Makes the primary context of the calling thread's device its current one. */
cudaError_t enter(void);

/* Notes a failure for cudaGetLastError. The codes of the driver are those of the runtime. */
cudaError_t done(int code);

/* What a function of the runtime returns that is not here: build.py makes those. */
int zico_runtime_unsupported(const char* name);

/* Runs a call of the driver in the thread's context. */
#define DRIVER(call)                             \
  do {                                           \
    cudaError_t entered_ = enter();              \
    return entered_ ? entered_ : done((int)(call)); \
  } while (0)

/* The driver's name for a stream: the legacy default stream has two. */
CUstream driver_stream(cudaStream_t stream);

/* Enqueues a kernel, which takes some time and does nothing else. */
cudaError_t launch(cudaStream_t stream);

#endif
