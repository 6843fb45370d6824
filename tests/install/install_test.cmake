# Installs the build tree into a fresh prefix, moves it, and builds and runs the consumer against it: once
# found by find_package, once by pkg-config.
#   cmake -D BUILD=… -D SCRATCH=… -D COMPILER=… -D FLAGS=… -D GENERATOR=… -P install_test.cmake
cmake_minimum_required(VERSION 3.25)

set(consumer ${CMAKE_CURRENT_LIST_DIR}/consumer)
set(prefix ${SCRATCH}/moved)

function(run)
  execute_process(COMMAND ${ARGN} COMMAND_ERROR_IS_FATAL ANY)
endfunction()

function(expect_io_error program)
  execute_process(COMMAND ${program} OUTPUT_VARIABLE output COMMAND_ERROR_IS_FATAL ANY)
  if(NOT output STREQUAL "io\n")
    message(FATAL_ERROR "${program}: expected \"io\", got \"${output}\"")
  endif()
endfunction()

file(REMOVE_RECURSE ${SCRATCH})
run(${CMAKE_COMMAND} --install ${BUILD} --prefix ${SCRATCH}/installed)
file(RENAME ${SCRATCH}/installed ${prefix})

run(${CMAKE_COMMAND} -G ${GENERATOR} -S ${consumer} -B ${SCRATCH}/build -D CMAKE_PREFIX_PATH=${prefix}
  -D CMAKE_CXX_COMPILER=${COMPILER} -D CMAKE_CXX_FLAGS=${FLAGS})
run(${CMAKE_COMMAND} --build ${SCRATCH}/build)
expect_io_error(${SCRATCH}/build/consumer)

file(GLOB_RECURSE pc ${prefix}/*/engine.pc)
cmake_path(GET pc PARENT_PATH pc_dir)
execute_process(COMMAND ${CMAKE_COMMAND} -E env PKG_CONFIG_PATH=${pc_dir} pkg-config --cflags --libs engine
  OUTPUT_VARIABLE options COMMAND_ERROR_IS_FATAL ANY)
separate_arguments(options UNIX_COMMAND "${options}")
separate_arguments(flags UNIX_COMMAND "${FLAGS}")
run(${COMPILER} -std=c++20 ${flags} ${consumer}/consumer.cc ${options} -o ${SCRATCH}/consumer)
expect_io_error(${SCRATCH}/consumer)
