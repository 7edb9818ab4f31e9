# One sanitizer instruments everything or nothing: the flags are usage requirements of the
# libraries, so that tests, examples and a downstream project linked to an instrumented Leat have
# them too.

set(LEAT_SANITIZE "" CACHE STRING
    "Instrument with: address (and undefined behaviour), thread, fuzzer (address, for libFuzzer)"
)
set_property(CACHE LEAT_SANITIZE PROPERTY STRINGS "" address thread fuzzer)

if(LEAT_SANITIZE STREQUAL "address")
  # A target with LEAT_NO_UBSAN is compiled without the checks for undefined behaviour. A property,
  # because flags of a library come after the flags of its user, and the last flag counts.
  set(no_ubsan ";$<$<BOOL:$<TARGET_PROPERTY:LEAT_NO_UBSAN>>:-fno-sanitize=undefined>")
  set(leat_sanitize_flags -fsanitize=address,undefined -fno-sanitize-recover=all)
elseif(LEAT_SANITIZE STREQUAL "thread")
  set(leat_sanitize_flags -fsanitize=thread)
elseif(LEAT_SANITIZE STREQUAL "fuzzer")
  set(leat_sanitize_flags -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=all)
elseif(LEAT_SANITIZE)
  message(FATAL_ERROR "LEAT_SANITIZE is '${LEAT_SANITIZE}'; it must be empty, address, thread or fuzzer")
endif()

function(leat_set_sanitizers target)
  if(LEAT_SANITIZE)
    target_compile_options(
      ${target}
      PUBLIC
        "$<$<COMPILE_LANGUAGE:C,CXX>:${leat_sanitize_flags}${no_ubsan};-fno-omit-frame-pointer>"
    )
    target_link_options(${target} PUBLIC ${leat_sanitize_flags})
  endif()
endfunction()
