// Matrix products with a C interface, for other languages (overlap/kernels.h).
#include <array>
#include <cstdio>
#include <exception>

#include "leat/overlap/cublas.h"
#include "leat/overlap/kernels.h"

namespace {

// Stores the text of the exception, as the calling thread's latest one, and returns it.
const char* kept(const std::exception& error) {
  thread_local std::array<char, 512> text{};
  std::snprintf(text.data(), text.size(), "%s", error.what());
  return text.data();
}

}  // namespace

// Handles are never destroyed: a measuring process ends soon.
void* leat_overlap_gemm_open(void* stream, const char** error) {
  try {
    *error = nullptr;
    return new overlap::Cublas(stream);
  } catch (const std::exception& e) {
    *error = kept(e);
    return nullptr;
  }
}

const char* leat_overlap_gemm(void* gemm, int width, const void* a, const void* b, void* c) {
  try {
    static_cast<overlap::Cublas*>(gemm)->multiply(width, a, b, c);
    return nullptr;
  } catch (const std::exception& e) {
    return kept(e);
  }
}

const char* leat_overlap_gemm_library(void* gemm) {
  return static_cast<const overlap::Cublas*>(gemm)->library().c_str();
}
