#include "leat/overlap/cublas.h"

#include <dlfcn.h>

#include <stdexcept>
#include <string>

namespace overlap {
namespace {

// Where cuBLAS is looked for: in the dynamic loader's folders first, which rarely include a CUDA
// Toolkit's, and then in the Toolkit's usual folders.
constexpr const char* kFolders[] = {"", "/usr/local/cuda/lib64/", "/usr/local/cuda/lib/"};
constexpr const char* kNames[] = {"libcublas.so.13", "libcublas.so.12"};

// The library is never closed: its code may run until the process ends.
void* load() {
  for (const char* const file : kNames) {
    for (const char* const folder : kFolders) {
      const std::string name = std::string(folder) + file;
      if (void* const library = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL)) return library;
    }
  }
  throw std::runtime_error("no libcublas.so.13 or .12 found");
}

template <class Function>
Function find(void* library, const char* name) {
  void* const symbol = dlsym(library, name);
  if (symbol == nullptr) throw std::runtime_error(std::string("cuBLAS has no ") + name);
  return reinterpret_cast<Function>(symbol);
}

void check(int status, const char* what) {
  if (status == 0) return;
  throw std::runtime_error(std::string(what) + " gave status " + std::to_string(status));
}

// Uses cublasGetProperty. The encoding of cublasGetVersion's number has changed between versions.
std::string description(void* library) {
  using GetProperty = int (*)(int which, int* value);
  const auto get_property = find<GetProperty>(library, "cublasGetProperty");
  std::string text = "cuBLAS ";
  for (int which = 0; which < 3; ++which) {  // MAJOR_VERSION, MINOR_VERSION, PATCH_LEVEL
    int value = 0;
    check(get_property(which, &value), "cublasGetProperty");
    if (which > 0) text += '.';
    text += std::to_string(value);
  }
  Dl_info file{};
  const bool known = dladdr(reinterpret_cast<void*>(get_property), &file) != 0;
  return text + " of " + (known ? file.dli_fname : "an unknown file");
}

}  // namespace

Cublas::Cublas(void* stream) {
  void* const library = load();
  library_ = description(library);
  destroy_ = find<Destroy>(library, "cublasDestroy_v2");
  sgemm_ = find<Sgemm>(library, "cublasSgemm_v2");
  const auto set_stream = find<SetStream>(library, "cublasSetStream_v2");
  check(find<Create>(library, "cublasCreate_v2")(&handle_), "cublasCreate");
  if (const int status = set_stream(handle_, stream); status != 0) {
    static_cast<void>(destroy_(handle_));
    check(status, "cublasSetStream");
  }
}

Cublas::~Cublas() { static_cast<void>(destroy_(handle_)); }

void Cublas::multiply(int width, const void* a, const void* b, void* c) {
  constexpr int kAsItIs = 0;  // CUBLAS_OP_N
  const float one = 1;
  const float zero = 0;
  check(sgemm_(handle_, kAsItIs, kAsItIs, width, width, width, &one, static_cast<const float*>(a),
               width, static_cast<const float*>(b), width, &zero, static_cast<float*>(c), width),
        "cublasSgemm");
}

}  // namespace overlap
