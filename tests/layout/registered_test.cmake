# Checks that ctest runs every tests/**/*_test.*, so that no test is lost by never being registered.
#   cmake -D ROOT=<repository> -D BUILD=<build tree> -P registered_test.cmake
# LISTING, what ctest --show-only=json-v1 prints, may be given instead of BUILD. LEFT_OUT: beginnings of paths
# to ignore, as a regular expression.
cmake_minimum_required(VERSION 3.25)

if(NOT DEFINED LISTING)
  execute_process(COMMAND ${CMAKE_CTEST_COMMAND} --test-dir ${BUILD} --show-only=json-v1
    OUTPUT_VARIABLE LISTING COMMAND_ERROR_IS_FATAL ANY)
endif()

file(GLOB_RECURSE tests RELATIVE ${ROOT} ${ROOT}/tests/*_test.*)
if(NOT tests)
  message(FATAL_ERROR "no *_test.* below ${ROOT}/tests")
endif()
if(LEFT_OUT)
  list(FILTER tests EXCLUDE REGEX "^(${LEFT_OUT})")
endif()
foreach(test IN LISTS tests)
  get_filename_component(name ${test} NAME_WE)
  # Run on several devices, it bears each one's name.
  string(REGEX REPLACE "_device_test$" "_(simt|cuda)_test" name ${name})
  # A registered test bears the name of its file, or runs a program of that name.
  if(NOT LISTING MATCHES "[\"/]${name}\"")
    message(SEND_ERROR "${test} is not registered: no ctest test runs ${name}")
  endif()
endforeach()
