# Decides once whether this build has CUDA, and NVTX. The answers, LEAT_WITH_CUDA and LEAT_WITH_NVTX,
# choose which *files* join a target; no preprocessor symbol carries them into the sources.

set(LEAT_CUDA AUTO CACHE STRING "Build the CUDA backend: ON, OFF, or AUTO (where a toolkit works)")
set_property(CACHE LEAT_CUDA PROPERTY STRINGS AUTO ON OFF)
set(LEAT_CUDART static CACHE STRING "CUDA runtime to link: static, or shared where the program has one")
set_property(CACHE LEAT_CUDART PROPERTY STRINGS static shared)
set(LEAT_CUDA_RUNTIME "" CACHE PATH "In a toolkit's place: a folder with CUDA's include/ and lib/libcudart_static.a")

set(LEAT_WITH_CUDA OFF)
set(leat_cuda_reason "LEAT_CUDA=OFF")

if(LEAT_CUDA_RUNTIME AND (LEAT_CUDA STREQUAL "AUTO" OR LEAT_CUDA))
  # All that the libraries need. A toolkit beside it is not looked for, and no language is enabled.
  set(header "${LEAT_CUDA_RUNTIME}/include/cuda_runtime_api.h")
  set(archive "${LEAT_CUDA_RUNTIME}/lib/libcudart_static.a")
  if(NOT EXISTS "${header}" OR NOT EXISTS "${archive}")
    message(FATAL_ERROR "LEAT_CUDA_RUNTIME: there is no ${header}, or no ${archive}; name the folder "
                        "nvidia/cuda_runtime that pip install nvidia-cuda-runtime-cu12 makes"
    )
  endif()
  if(LEAT_BUILD_PROGRAMS OR LEAT_BUILD_EXAMPLES OR LEAT_BUILD_BENCH OR LEAT_INSTALL OR LEAT_CUDART STREQUAL "shared")
    message(FATAL_ERROR "LEAT_CUDA_RUNTIME is for the Python package: programs, examples, benchmarks, an installation "
                        "and LEAT_CUDART=shared need a CUDA Toolkit; turn them off, or take a toolkit"
    )
  endif()
  find_package(Threads REQUIRED)
  add_library(CUDA::toolkit INTERFACE IMPORTED)
  add_library(CUDA::cudart_static STATIC IMPORTED)
  target_include_directories(CUDA::toolkit INTERFACE "${LEAT_CUDA_RUNTIME}/include")
  target_link_libraries(CUDA::cudart_static INTERFACE CUDA::toolkit Threads::Threads ${CMAKE_DL_LIBS} rt)
  set_target_properties(CUDA::cudart_static PROPERTIES IMPORTED_LOCATION "${archive}")
  file(STRINGS "${header}" version REGEX "^#define CUDART_VERSION +[0-9]+") # 12090 is CUDA 12.9
  string(REGEX REPLACE "[^0-9]" "" version "${version}")
  math(EXPR major "${version} / 1000")
  math(EXPR minor "${version} % 1000 / 10")
  set(leat_cuda_found "${major}.${minor}, static runtime of ${LEAT_CUDA_RUNTIME}")
  set(LEAT_WITH_CUDA ON)
elseif(LEAT_CUDA STREQUAL "AUTO" OR LEAT_CUDA)
  # Before any language is enabled: the compiler check itself fails when a new nvcc is handed the
  # old architectures that CMake would choose.
  if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES AND NOT DEFINED ENV{CUDAARCHS})
    set(CMAKE_CUDA_ARCHITECTURES "75-virtual;90")
  endif()
  find_package(CUDAToolkit QUIET) # looks in /usr/local/cuda too, where nvcc is not on PATH

  if(NOT CUDAToolkit_FOUND)
    set(leat_cuda_reason "no CUDA Toolkit found")
  else()
    # nvcc refuses host compilers newer than it knows; AUTO must survive that, so ask first.
    if(NOT DEFINED ENV{CUDACXX})
      set(ENV{CUDACXX} "${CUDAToolkit_NVCC_EXECUTABLE}")
    endif()
    if(NOT DEFINED ENV{CUDAARCHS})
      set(ENV{CUDAARCHS} "${CMAKE_CUDA_ARCHITECTURES}") # all that check_language() passes on
    endif()
    include(CheckLanguage)
    check_language(CUDA)
    if(CMAKE_CUDA_COMPILER)
      enable_language(CUDA)
      set(leat_cuda_found
          "${CUDAToolkit_VERSION}, ${LEAT_CUDART} runtime, architectures ${CMAKE_CUDA_ARCHITECTURES}"
      )
      set(LEAT_WITH_CUDA ON)
    else()
      set(leat_cuda_reason "${CUDAToolkit_NVCC_EXECUTABLE} does not work with ${CMAKE_CXX_COMPILER}")
    endif()
  endif()
endif()

if(LEAT_WITH_CUDA)
  set(CMAKE_CUDA_STANDARD 17) # the newest that CMake 3.22 knows for nvcc: .cu files hold kernels only
  if(LEAT_CUDART STREQUAL "shared")
    set(leat_cudart CUDA::cudart)
    set(CMAKE_CUDA_RUNTIME_LIBRARY Shared)
  else()
    set(leat_cudart CUDA::cudart_static)
    set(CMAKE_CUDA_RUNTIME_LIBRARY Static)
  endif()
  message(STATUS "Leat: CUDA ${leat_cuda_found}")
elseif(LEAT_CUDA STREQUAL "AUTO" OR NOT LEAT_CUDA)
  message(STATUS "Leat: without CUDA (${leat_cuda_reason})")
else()
  message(FATAL_ERROR "LEAT_CUDA=ON, but ${leat_cuda_reason}")
endif()

# NVTX is headers, of a toolkit or of the package nvidia-nvtx-cu12 beside LEAT_CUDA_RUNTIME. They were once
# a library (nvToolsExt.h alone), so the file that needs them is compiled.
set(LEAT_WITH_NVTX OFF)
if(LEAT_WITH_CUDA)
  if(LEAT_CUDA_RUNTIME)
    set(leat_nvtx_places "${LEAT_CUDA_RUNTIME}/include" "${LEAT_CUDA_RUNTIME}/../nvtx/include")
  else()
    set(leat_nvtx_places ${CUDAToolkit_INCLUDE_DIRS})
  endif()
  find_path(LEAT_NVTX_INCLUDE_DIR nvtx3/nvToolsExt.h PATHS ${leat_nvtx_places} NO_DEFAULT_PATH
            DOC "The folder of nvtx3/nvToolsExt.h"
  )
  mark_as_advanced(LEAT_NVTX_INCLUDE_DIR)
  if(LEAT_NVTX_INCLUDE_DIR)
    set(CMAKE_TRY_COMPILE_TARGET_TYPE STATIC_LIBRARY)
    try_compile(
      LEAT_NVTX_COMPILES "${PROJECT_BINARY_DIR}/nvtx" "${PROJECT_SOURCE_DIR}/gpu/cuda/nvtx.cpp"
      CMAKE_FLAGS "-DINCLUDE_DIRECTORIES=${LEAT_NVTX_INCLUDE_DIR};${leat_include}"
      CXX_STANDARD 20 CXX_STANDARD_REQUIRED ON
    )
    unset(CMAKE_TRY_COMPILE_TARGET_TYPE)
  endif()
  if(LEAT_NVTX_INCLUDE_DIR AND LEAT_NVTX_COMPILES)
    set(LEAT_WITH_NVTX ON)
    message(STATUS "Leat: with NVTX of ${LEAT_NVTX_INCLUDE_DIR}")
  else()
    message(STATUS "Leat: without NVTX (no nvtx3/nvToolsExt.h that compiles in ${leat_nvtx_places})")
  endif()
endif()
