# Whether libtorch is there, for feeder/interop/torch.h's tests and example. No library of Leat's needs it.
#
# Not under a sanitizer: libtorch itself is not instrumented, so that what it frees, and how its
# threads wait for each other, is not seen.

set(LEAT_TORCH AUTO CACHE STRING "Test feeder/interop/torch.h: ON, OFF, or AUTO (where libtorch is found)")
set_property(CACHE LEAT_TORCH PROPERTY STRINGS AUTO ON OFF)

set(LEAT_WITH_TORCH OFF)
if(NOT LEAT_TORCH)
  set(leat_torch_reason "LEAT_TORCH=OFF")
elseif(LEAT_SANITIZE)
  set(leat_torch_reason "LEAT_SANITIZE=${LEAT_SANITIZE}")
else()
  find_package(Torch QUIET)
  if(NOT Torch_FOUND)
    set(leat_torch_reason "no libtorch found")
  elseif(CMAKE_CXX_COMPILER_ID MATCHES "Clang" AND Torch_VERSION VERSION_LESS 2.0)
    set(leat_torch_reason "as C++20, libtorch ${Torch_VERSION} does not compile with Clang")
  else()
    set(LEAT_WITH_TORCH ON)
  endif()
endif()

if(LEAT_WITH_TORCH)
  separate_arguments(leat_torch_flags UNIX_COMMAND "${TORCH_CXX_FLAGS}")
  message(STATUS "Leat: with libtorch ${Torch_VERSION}")
elseif(LEAT_TORCH STREQUAL "AUTO" OR NOT LEAT_TORCH)
  message(STATUS "Leat: without libtorch (${leat_torch_reason})")
else()
  message(FATAL_ERROR "LEAT_TORCH=ON, but ${leat_torch_reason}")
endif()

# leat_use_torch(target): links it, and compiles as it was.
function(leat_use_torch target)
  target_link_libraries(${target} PRIVATE ${TORCH_LIBRARIES} $<TARGET_NAME_IF_EXISTS:c10>) # c10: from 2.0 on
  target_compile_options(${target} PRIVATE "$<$<COMPILE_LANGUAGE:CXX>:${leat_torch_flags}>")
  set_target_properties(${target} PROPERTIES CXX_CLANG_TIDY "") # for which it would be Clang
endfunction()
