# MPI, for leat::comm_mpi. Optional: who does not leave one machine needs none.

find_package(MPI QUIET COMPONENTS CXX)
set(LEAT_WITH_MPI ${MPI_CXX_FOUND})
if(LEAT_WITH_MPI)
  message(STATUS "Leat: MPI ${MPI_CXX_VERSION}, ${MPIEXEC_EXECUTABLE}")
else()
  message(STATUS "Leat: without MPI (on Debian and Ubuntu: apt-get install libopenmpi-dev openmpi-bin)")
endif()
