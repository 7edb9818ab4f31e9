# Whether SQLite is there, for overlap/trace/readers/nsight.cpp. Other traces are read without it.

set(LEAT_SQLITE AUTO CACHE STRING "Read Nsight Systems' exports: ON, OFF, or AUTO (where SQLite is found)")
set_property(CACHE LEAT_SQLITE PROPERTY STRINGS AUTO ON OFF)

find_package(SQLite3 3.34 QUIET) # Debian 11's
set(LEAT_WITH_SQLITE OFF)
if(LEAT_SQLITE AND SQLite3_FOUND)
  set(LEAT_WITH_SQLITE ON)
  message(STATUS "Leat: with SQLite, ${SQLite3_VERSION}")
elseif(NOT LEAT_SQLITE)
  message(STATUS "Leat: without SQLite (LEAT_SQLITE=OFF)")
elseif(LEAT_SQLITE STREQUAL "AUTO")
  message(STATUS "Leat: without SQLite (not found; on Debian and Ubuntu: apt-get install libsqlite3-dev)")
else()
  message(FATAL_ERROR "LEAT_SQLITE=ON, but SQLite was not found; on Debian and Ubuntu: apt-get install libsqlite3-dev")
endif()
