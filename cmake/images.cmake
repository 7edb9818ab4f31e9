# Whether libpng and libwebp are there, for feeder/sources/images/. JPEG images are read without them.

set(LEAT_PNG AUTO CACHE STRING "Read PNG images: ON, OFF, or AUTO (where libpng is found)")
set(LEAT_WEBP AUTO CACHE STRING "Read WebP images: ON, OFF, or AUTO (where libwebp is found)")
set_property(CACHE LEAT_PNG LEAT_WEBP PROPERTY STRINGS AUTO ON OFF)

find_package(PNG 1.6 QUIET)
# Distributions' packages of libwebp have no file for find_package().
find_path(LEAT_WEBP_INCLUDE_DIR webp/decode.h DOC "The folder of webp/decode.h")
find_library(LEAT_WEBP_LIBRARY webp DOC "libwebp")
mark_as_advanced(LEAT_WEBP_INCLUDE_DIR LEAT_WEBP_LIBRARY)
set(PNG_NAMED "${PNG_VERSION_STRING}")
set(WEBP_FOUND OFF)
if(LEAT_WEBP_INCLUDE_DIR AND LEAT_WEBP_LIBRARY)
  set(WEBP_FOUND ON)
  file(REAL_PATH "${LEAT_WEBP_LIBRARY}" WEBP_NAMED) # has the version
endif()

foreach(format PNG WEBP)
  string(TOLOWER "lib${format}" library)
  set(LEAT_WITH_${format} OFF)
  if(LEAT_${format} AND ${format}_FOUND)
    set(LEAT_WITH_${format} ON)
    message(STATUS "Leat: with ${library}, ${${format}_NAMED}")
  elseif(NOT LEAT_${format})
    message(STATUS "Leat: without ${library} (LEAT_${format}=OFF)")
  elseif(LEAT_${format} STREQUAL "AUTO")
    message(STATUS "Leat: without ${library} (not found; on Debian and Ubuntu: apt-get install ${library}-dev)")
  else()
    message(FATAL_ERROR "LEAT_${format}=ON, but ${library} was not found; on Debian and Ubuntu: apt-get install ${library}-dev")
  endif()
endforeach()
