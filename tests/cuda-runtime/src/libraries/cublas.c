/* cuBLAS's handle. All else does nothing, takes no time, and succeeds. */

int cublasCreate_v2(void** handle) {
  static int none;
  *handle = &none;
  return 0;
}
