# What Leat's targets have in common.

include(GNUInstallDirs)

if(NOT DEFINED CMAKE_CXX_EXTENSIONS)
  set(CMAKE_CXX_EXTENSIONS OFF)
endif()

# `#include "leat/csp/channel.h"` is the one spelling, in the tree as in the installed package:
# include/leat/ holds one link per library folder.
set(leat_include "${PROJECT_SOURCE_DIR}/include")

# A unity build compiles many files as one: a fifth of the work. Without it (preset dev), each file
# has to include what it uses.
option(LEAT_UNITY "Compile each target as few large files" ON)
set(CMAKE_UNITY_BUILD ${LEAT_UNITY})
set(CMAKE_UNITY_BUILD_BATCH_SIZE 40)
# GCC collects garbage whenever its heap has grown by a third. Left alone up to 1 GB, it compiles an
# eighth faster.
add_compile_options("$<$<COMPILE_LANG_AND_ID:CXX,GNU>:SHELL:--param ggc-min-heapsize=1000000>")

# What is installed finds the shared libraries beside it.
if(BUILD_SHARED_LIBS AND NOT DEFINED CMAKE_INSTALL_RPATH)
  file(RELATIVE_PATH lib "${CMAKE_INSTALL_FULL_BINDIR}" "${CMAKE_INSTALL_FULL_LIBDIR}")
  set(CMAKE_INSTALL_RPATH "$ORIGIN;$ORIGIN/${lib}")
endif()

# Two versions of Leat in a process do not see each other. A shared library exports Leat's own
# symbols, with a version; a static one gives a module nothing to export.
set(leat_soversion ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})
set(leat_exports "${PROJECT_BINARY_DIR}/exports.map")
file(CONFIGURE OUTPUT "${leat_exports}" CONTENT
     "LEAT_@leat_soversion@ { global: *4leat*; leat_*; local: *; };\n" @ONLY
)

# leat_add_library(csp a.cpp b.cpp): the target leat_csp, for users leat::csp.
function(leat_add_library name)
  set(target leat_${name})
  add_library(${target} ${ARGN})
  add_library(leat::${name} ALIAS ${target})
  target_compile_features(${target} PUBLIC cxx_std_20)
  target_include_directories(
    ${target} PUBLIC "$<BUILD_INTERFACE:${leat_include}>"
                     "$<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>"
  )
  set_target_properties(
    ${target}
    PROPERTIES EXPORT_NAME ${name}
               POSITION_INDEPENDENT_CODE ON # a static Leat inside somebody's shared object
               VERSION ${PROJECT_VERSION}
               SOVERSION ${leat_soversion}
  )
  get_target_property(type ${target} TYPE)
  if(type STREQUAL "SHARED_LIBRARY")
    target_link_options(${target} PRIVATE "LINKER:--version-script=${leat_exports}")
    set_property(TARGET ${target} APPEND PROPERTY LINK_DEPENDS "${leat_exports}")
  else()
    set_target_properties(
      ${target} PROPERTIES CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON
    )
  endif()
  leat_set_warnings(${target})
  leat_set_sanitizers(${target})
endfunction()

# leat_add_executable(name a.cpp b.cpp)
function(leat_add_executable target)
  add_executable(${target} ${ARGN})
  target_link_libraries(${target} PRIVATE leat::leat)
  leat_set_warnings(${target})
endfunction()
