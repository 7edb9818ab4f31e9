// MPI_Allreduce.
#include <mpi.h>

#include "../peer.h"

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank = 0;
  int ranks = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  const peer::Algorithms make = [](float* data, std::size_t count) {
    return std::vector<peer::Algorithm>{{"MPI_Allreduce", [data, count] {
                                           MPI_Allreduce(MPI_IN_PLACE, data,
                                                         static_cast<int>(count), MPI_FLOAT,
                                                         MPI_SUM, MPI_COMM_WORLD);
                                         }}};
  };
  const int status = peer::Measurement(rank, ranks, make).run(argc, argv);
  if (status != 0) MPI_Abort(MPI_COMM_WORLD, status);
  MPI_Finalize();
  return 0;
}
