/* cublasLt's functions that give something back, and its product of matrices, which takes the time of a kernel and touches
 * nothing. All others do nothing, and succeed. */
#include <stddef.h>

extern int zico_runtime_launch(void* stream);

int cublasLtCreate(void** handle) {
  static int none;
  *handle = &none;
  return 0;
}

/* There is one way to do it. */
int cublasLtMatmulAlgoGetHeuristic(void* handle, void* operation, void* a, void* b, void* c, void* d, void* preference,
                                   int wanted, void* results, int* found) {
  (void)handle, (void)operation, (void)a, (void)b, (void)c, (void)d, (void)preference, (void)wanted, (void)results;
  *found = 1;
  return 0;
}

int cublasLtMatmul(void* handle, void* operation, const void* alpha, const void* a, void* a_layout, const void* b,
                   void* b_layout, const void* beta, const void* c, void* c_layout, void* d, void* d_layout,
                   const void* algorithm, void* workspace, size_t bytes, void* stream) {
  (void)handle, (void)operation, (void)alpha, (void)a, (void)a_layout, (void)b, (void)b_layout, (void)beta, (void)c;
  (void)c_layout, (void)d, (void)d_layout, (void)algorithm, (void)workspace, (void)bytes;
  return zico_runtime_launch(stream);
}
