// A program without Leat. Loads the plug-ins that are named as arguments, lets each of them work,
// and unloads them. Signals that Leat has nothing to do with reach the program's own handler.
#include <dlfcn.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <thread>

namespace {

constexpr int kOwnHandlerRan = 7;
constexpr std::size_t kPage = 4096;

void* g_no_access = nullptr;
std::atomic<bool> g_in_fault{false};
std::atomic<int> g_allocations_in_fault{0};

[[noreturn]] void fail(const char* what, const char* why) {
  std::fprintf(stderr, "%s: %s\n", what, why);
  std::exit(1);
}

void on_fault(int /*signal*/, siginfo_t* info, void* /*context*/) {
  if (info->si_addr != g_no_access) _exit(kOwnHandlerRan);
  mprotect(g_no_access, kPage, PROT_READ | PROT_WRITE);
}

void fault() { *static_cast<volatile char*>(g_no_access) = 1; }

void load_and_work(const char* path) {
  void* const module = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (module == nullptr) fail(path, dlerror());
  const auto work = reinterpret_cast<const char* (*)()>(dlsym(module, "plug_in_work"));
  if (work == nullptr) fail(path, dlerror());
  // On a thread that ends, whose thread-locals would keep the module loaded.
  std::thread([&] {
    if (const char* const wrong = work()) fail(path, wrong);
  }).join();
  // On a thread that has not used Leat, its handler finds nothing to do and passes the fault on. It
  // must not allocate: the thread may have been in malloc().
  std::thread([] {
    mprotect(g_no_access, kPage, PROT_NONE);
    g_in_fault = true;
    fault();
    g_in_fault = false;
  }).join();
  if (g_allocations_in_fault > 0) fail(path, "its handler of SIGSEGV has allocated memory");
  dlclose(module);
}

}  // namespace

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
extern "C" void* __libc_malloc(std::size_t size);  // NOLINT(bugprone-reserved-identifier)
extern "C" void* malloc(std::size_t size) {
  if (g_in_fault.load()) ++g_allocations_in_fault;
  return __libc_malloc(size);
}
#endif

int main(int argc, char** argv) {
  const rlimit no_core{};
  setrlimit(RLIMIT_CORE, &no_core);
  g_no_access = mmap(nullptr, kPage, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  struct sigaction action = {};
  action.sa_sigaction = &on_fault;
  action.sa_flags = SA_SIGINFO;
  sigaction(SIGSEGV, &action, nullptr);

  for (int i = 1; i < argc; ++i) load_and_work(argv[i]);

  // A crash after the plug-ins were unloaded.
  const pid_t child = fork();
  if (child == 0) {
    alarm(20);
    *static_cast<volatile char*>(
        mmap(nullptr, kPage, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)) = 1;
    _exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  if (!WIFEXITED(status) || WEXITSTATUS(status) != kOwnHandlerRan) {
    fail("a crash", "the program's own handler was not called");
  }
}
