# Warnings are for Leat's developers. They never reach a consumer's own targets. A consumer that
# builds Leat inside a larger tree sees none, unless LEAT_WARNINGS is set. The presets make warnings
# errors, with CMake's own CMAKE_COMPILE_WARNING_AS_ERROR.

option(LEAT_WARNINGS "Compile Leat's own sources with many warnings" ${PROJECT_IS_TOP_LEVEL})

function(leat_set_warnings target)
  if(NOT LEAT_WARNINGS)
    return()
  endif()
  set(flags
      -Wall
      -Wextra
      -Wpedantic
      -Wcast-align
      -Wcast-qual
      -Wconversion
      -Wdouble-promotion
      -Wextra-semi
      -Wformat=2
      -Wimplicit-fallthrough
      -Wnon-virtual-dtor
      -Wold-style-cast
      -Woverloaded-virtual
      -Wshadow
      -Wsign-conversion
      -Wundef
      -Wunused
      -Wno-missing-field-initializers # {.depth = 2}: the others keep their defaults, as meant
  )
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    list(APPEND flags -Wduplicated-branches -Wduplicated-cond -Wlogical-op)
    if(CMAKE_CXX_COMPILER_VERSION VERSION_GREATER_EQUAL 12 AND CMAKE_CXX_COMPILER_VERSION
                                                                VERSION_LESS 13
    )
      # With -O3, GCC 12 sees an overlap within std::string for "x" + std::to_string(n), where there
      # is none: GCC bugs 105329 and 105651. Which lines are hit depends on what is inlined, so that
      # no way of writing them is safe. A true overlap is found by AddressSanitizer.
      list(APPEND flags -Wno-restrict)
    endif()
    if(LEAT_SANITIZE)
      # Sanitizer instrumentation splits blocks, and the flow analysis then sees uses that are not.
      list(APPEND flags -Wno-maybe-uninitialized)
    endif()
  else()
    list(APPEND flags -Wthread-safety)
  endif()
  # Not for .cu files: nvcc's generated host code has warnings of its own.
  target_compile_options(${target} PRIVATE "$<$<COMPILE_LANGUAGE:CXX>:${flags}>")
endfunction()
