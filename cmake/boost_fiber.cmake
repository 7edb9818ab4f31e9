# Whether Boost.Fiber is there, for csp/boost_fiber.h and its tests. No library of Leat's needs it.
# After csp, which has decided whether Boost's libraries are static.

find_package(Boost 1.74 CONFIG QUIET COMPONENTS fiber)
if(TARGET Boost::fiber)
  set(LEAT_WITH_BOOST_FIBER ON)
  message(STATUS "Leat: with Boost.Fiber guests (Boost ${Boost_VERSION_STRING})")
else()
  set(LEAT_WITH_BOOST_FIBER OFF)
  message(STATUS "Leat: without Boost.Fiber guests (no Boost.Fiber found)")
endif()
