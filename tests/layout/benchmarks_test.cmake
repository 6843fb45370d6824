# Checks that every CPU op, that is every function of kernels/op/*.h that takes its Args and a Pool, has a benchmark.
#   cmake -D ROOT=<repository> -D BENCH=<kernels-bench> -P benchmarks_test.cmake
# LISTING, what kernels-bench --benchmark_list_tests prints, may be given instead of BENCH.
cmake_minimum_required(VERSION 3.25)

if(NOT DEFINED LISTING)
  execute_process(COMMAND ${BENCH} --benchmark_list_tests OUTPUT_VARIABLE LISTING COMMAND_ERROR_IS_FATAL ANY)
endif()

set(n_ops 0)
file(GLOB headers RELATIVE ${ROOT} ${ROOT}/kernels/op/*.h)
foreach(header IN LISTS headers)
  file(READ ${ROOT}/${header} text)
  string(REGEX MATCHALL "[a-z0-9_]+\\([^()]*Args&[^()]*Pool&[^()]*\\)" functions "${text}")
  foreach(function IN LISTS functions)
    math(EXPR n_ops "${n_ops} + 1")
    string(REGEX MATCH "^[a-z0-9_]+" op "${function}")
    if(NOT "\n${LISTING}" MATCHES "\n${op}/")
      message(SEND_ERROR "${header}: ${op} has no benchmark in bench/cases.cc")
    endif()
  endforeach()
endforeach()
if(n_ops EQUAL 0)
  message(FATAL_ERROR "no CPU op in ${ROOT}/kernels/op")
endif()
