// A program that has Leat and loads modules that have it, so that each could see the symbols of the
// others: the program exports its own, and the modules are loaded with RTLD_GLOBAL. Where Leat is
// static, each uses its own nevertheless. Nobody offers Boost's functions.
#include <dlfcn.h>

#include <cstdio>
#include <set>

#include "leat/csp/scheduler.h"

namespace {

using Function = void (*)();

template <class T>
T find(void* module, const char* name) {
  return reinterpret_cast<T>(dlsym(module, name));
}

}  // namespace

int main(int argc, char** argv) {
  std::set<Function> yields = {&leat::yield};
  for (int i = 1; i < argc; ++i) {
    void* const module = dlopen(argv[i], RTLD_NOW | RTLD_GLOBAL);
    if (module == nullptr) {
      std::puts(dlerror());
      return 1;
    }
    if (find<int (*)()>(module, "receive")() != 55) return 2;
    yields.insert(find<Function (*)()>(module, "whose_yield")());
  }
  if (leat::run([] { return 55; }) != 55) return 3;
  const bool boost = dlsym(RTLD_DEFAULT, "jump_fcontext") != nullptr;
  std::printf("%zu Leats in %d modules and a program; Boost's functions are %s\n", yields.size(),
              argc - 1, boost ? "exported" : "hidden");
  return !boost && yields.size() == (STATIC_LEAT ? 3 : 1) ? 0 : 4;
}
