# Which headers a user may include. They are installed, with what they include; each is compiled alone
# by the tests, and each has its page in the reference.

file(
  GLOB
  leat_public_headers
  RELATIVE "${PROJECT_SOURCE_DIR}"
  CONFIGURE_DEPENDS
  "${PROJECT_SOURCE_DIR}/csp/*.h"
  "${PROJECT_SOURCE_DIR}/gpu/*.h"
  "${PROJECT_SOURCE_DIR}/feeder/*.h"
  "${PROJECT_SOURCE_DIR}/feeder/interop/*.h"
  "${PROJECT_SOURCE_DIR}/comm/*.h"
  "${PROJECT_SOURCE_DIR}/comm/interop/*.h"
  "${PROJECT_SOURCE_DIR}/pipeline/*.h"
)
list(APPEND leat_public_headers feeder/interop/c/leat.h feeder/interop/c/sources.h)
foreach(source cifar10 files fixed_records function image jpeg_options memory mnist token_shards web_dataset
        web_part
)
  list(APPEND leat_public_headers feeder/sources/${source}.h)
endforeach()
list(APPEND leat_public_headers feeder/sources/columns.h feeder/sources/columns/arrow_abi.h
     feeder/sources/npy_files.h
)
list(REMOVE_ITEM leat_public_headers csp/explore.h) # of leat_csp_explore, which is for tests
if(NOT LEAT_WITH_BOOST_FIBER)
  list(REMOVE_ITEM leat_public_headers csp/boost_fiber.h)
endif()
foreach(folder gpu feeder comm pipeline)
  if(NOT folder IN_LIST leat_components)
    list(FILTER leat_public_headers EXCLUDE REGEX "^${folder}/")
  endif()
endforeach()

# leat_with_included(out header...): the headers, and those of Leat that they include.
function(leat_with_included out)
  set(all ${ARGN})
  set(left ${ARGN})
  while(left)
    list(POP_FRONT left header)
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/${header}")
    file(STRINGS "${PROJECT_SOURCE_DIR}/${header}" lines REGEX "^ *# *include \"leat/")
    foreach(line IN LISTS lines)
      string(REGEX REPLACE ".*\"leat/(.*)\".*" "\\1" included "${line}")
      if(NOT included IN_LIST all)
        list(APPEND all ${included})
        list(APPEND left ${included})
      endif()
    endforeach()
  endwhile()
  set(${out} ${all} PARENT_SCOPE)
endfunction()
