// Gloo's all-reduces over TCP on loopback, the only transport of Debian's build that needs no
// InfiniBand. Ranks are processes that this one forks. gloo::allreduce(), another ring, is left
// out: with four ranks on two CPUs one of 4 MiB took seconds, and one of 16 MiB more than 20.
#include <gloo/allreduce_bcube.h>
#include <gloo/allreduce_halving_doubling.h>
#include <gloo/allreduce_ring_chunked.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/transport/tcp/device.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <array>
#include <exception>
#include <filesystem>
#include <memory>

#include "../peer.h"

namespace {

using Context = std::shared_ptr<gloo::Context>;

// Of an algorithm that is made once for its memory.
template <class A>
peer::Algorithm made(const char* name, const Context& context, float* data, std::size_t count) {
  const auto one = std::make_shared<A>(context, std::vector<float*>{data}, static_cast<int>(count));
  return {name, [one] { one->run(); }};
}

int run(int rank, int ranks, const std::string& folder, int argc, char** argv) {
  try {
    gloo::transport::tcp::attr where;
    where.iface = "lo";
    where.ai_family = AF_UNSPEC;
    gloo::rendezvous::FileStore store(folder);
    const auto context = std::make_shared<gloo::rendezvous::Context>(rank, ranks);
    auto device = gloo::transport::tcp::CreateDevice(where);
    context->connectFullMesh(store, device);
    const peer::Algorithms make = [context](float* data, std::size_t count) {
      return std::vector<peer::Algorithm>{
          made<gloo::AllreduceHalvingDoubling<float>>("halving_doubling", context, data, count),
          made<gloo::AllreduceRingChunked<float>>("ring_chunked", context, data, count),
          made<gloo::AllreduceBcube<float>>("bcube", context, data, count),
      };
    };
    static peer::Measurement measurement(rank, ranks, make);  // its connections last longer
    return measurement.run(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "rank %d: %s\n", rank, error.what());
    return 1;
  }
}

}  // namespace

int main(int argc, char** argv) {
  const int ranks = argc > 1 ? std::atoi(argv[1]) : 1;
  std::string folder = (std::filesystem::temp_directory_path() / "gloo-XXXXXX").string();
  std::array<int, 2> ended = {};  // a pipe: a byte for each rank, of its status
  if (mkdtemp(folder.data()) == nullptr || pipe(ended.data()) != 0) return 1;
  for (int rank = 1; rank < ranks; ++rank) {
    if (fork() != 0) continue;
    prctl(PR_SET_PDEATHSIG, SIGKILL);  // by the death of rank 0
    const auto status = static_cast<char>(run(rank, ranks, folder, argc, argv));
    // The end of a process could reset connections that others still read from.
    if (write(ended[1], &status, 1) == 1) pause();
    _exit(1);
  }
  int status = run(0, ranks, folder, argc, argv);
  for (int rank = 1; rank < ranks && status == 0; ++rank) {
    char its = 1;
    if (read(ended[0], &its, 1) != 1 || its != 0) status = 1;
  }
  std::filesystem::remove_all(folder);
  std::fflush(stdout);
  _exit(status);
}
