# An object compiled for a newer instruction set must not offer inline functions that others share: the linker
# keeps one copy of each, and if it is this object's, a machine without those instructions dies in code that has nothing
# to do with it. So every weak symbol of leaf_<isa>.cc names the leaf's own class.
# usage: cmake -DNM=… -DOBJECTS=a.o;b.o -P leaf_symbols_test.cmake
set(n_leaves 0)
foreach(object IN LISTS OBJECTS)
  if(NOT object MATCHES "leaf_([a-z0-9]+)\\.cc" OR CMAKE_MATCH_1 STREQUAL scalar)
    continue()
  endif()
  math(EXPR n_leaves "${n_leaves} + 1")
  set(isa ${CMAKE_MATCH_1})
  execute_process(COMMAND ${NM} -C ${object} OUTPUT_VARIABLE symbols COMMAND_ERROR_IS_FATAL ANY)
  string(REGEX MATCHALL "[^\n]* [WVu] [^\n]*" weak "${symbols}")
  foreach(symbol IN LISTS weak)
    string(TOLOWER "${symbol}" lower)
    if(NOT lower MATCHES "${isa}")
      message(SEND_ERROR "${object} shares a function with other objects: ${symbol}")
    endif()
  endforeach()
endforeach()
if(n_leaves EQUAL 0)
  message(FATAL_ERROR "no leaf object among: ${OBJECTS}")
endif()
