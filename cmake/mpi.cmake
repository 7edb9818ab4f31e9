# Whether MPI is there, for leat::comm_mpi: a library of its own, so that nothing else needs it.

set(LEAT_MPI AUTO CACHE STRING "Build leat::comm_mpi: ON, OFF, or AUTO (where MPI is found)")
set_property(CACHE LEAT_MPI PROPERTY STRINGS AUTO ON OFF)

set(LEAT_WITH_MPI OFF)
if(NOT LEAT_MPI)
  set(leat_mpi_reason "LEAT_MPI=OFF")
else()
  find_package(MPI QUIET COMPONENTS CXX)
  if(MPI_CXX_FOUND)
    set(LEAT_WITH_MPI ON)
  else()
    set(leat_mpi_reason "not found; on Debian and Ubuntu: apt-get install libopenmpi-dev openmpi-bin")
  endif()
endif()

if(LEAT_WITH_MPI)
  message(STATUS "Leat: with MPI ${MPI_CXX_VERSION}, ${MPIEXEC_EXECUTABLE}")
elseif(LEAT_MPI STREQUAL "AUTO" OR NOT LEAT_MPI)
  message(STATUS "Leat: without MPI (${leat_mpi_reason})")
else()
  message(FATAL_ERROR "LEAT_MPI=ON, but MPI was ${leat_mpi_reason}")
endif()
