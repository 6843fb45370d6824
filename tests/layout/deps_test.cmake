# Checks that includes follow the layers:  gguf <- {tokenizer, kernels} <- engine <- {server, tools, bench, tests}
#   cmake -D ROOT=<repository> -P deps_test.cmake
cmake_minimum_required(VERSION 3.25)
include(${CMAKE_CURRENT_LIST_DIR}/sources.cmake)

# Which of our headers a file may include: pairs of patterns over the file's path and over the header's.
# The first pair whose file pattern matches decides; a file without a pair is an error.
set(public_headers "engine/engine(_c)?[.]h|gguf/result[.]h")
set(rules
  "gguf/result[.]"        "gguf/result[.]h"
  "gguf/"                 "gguf/"
  "tokenizer/"            "(tokenizer|gguf)/"
  "kernels/op/"           "kernels/op/|gguf/types[.]h"
  "kernels/ref/"          "kernels/(ref|op)/|gguf/types[.]h"
  "kernels/cpu/"          "kernels/(cpu|op)/|gguf/(types|result)[.]h"
  "kernels/cuda/"         "kernels/(cuda|op)/|gguf/(types|result)[.]h"
  "kernels/simt/"         "kernels/simt/"  # knows no kernel: it is a library of its own
  "engine/engine[.]h"     "gguf/result[.]h"
  "engine/engine_c[.]h"   "nothing"
  "engine/"               "(engine|kernels|tokenizer|gguf)/"
  "server/"               "server/|${public_headers}"
  "tools/"                "tools/|${public_headers}|gguf/reader[.]h"
  "(bench|tests)/"        ".*")

# Where headers of others may appear: pairs of patterns over the header's path and over the file's.
set(system_rules
  "cuda|cublas|cooperative_groups|nv_"          "kernels/cuda/|engine/cuda_|tests/support/cuda_"
  "(immintrin|x86intrin|arm_neon|arm_sve)[.]h"  "kernels/cpu/(leaf|simd)_"
  "(CLI|spdlog|nlohmann|boost|prometheus)/"     "(server|tools|bench|tests)/"
  "(gtest|gmock|benchmark)/"                    "(bench|tests)/")

# What the file may include of ours; empty if no rule speaks of it.
function(find_rule file result)
  set(remaining ${rules})
  while(remaining)
    list(POP_FRONT remaining files headers)
    if(file MATCHES "^(${files})")
      set(${result} ${headers} PARENT_SCOPE)
      return()
    endif()
  endwhile()
  set(${result} "" PARENT_SCOPE)
endfunction()

function(check_own file header)
  if(NOT header MATCHES "^(${allowed})")
    message(SEND_ERROR "${file} includes ${header}; it may include ${allowed}")
  endif()
endfunction()

function(check_system file header)
  set(remaining ${system_rules})
  while(remaining)
    list(POP_FRONT remaining headers files)
    if(header MATCHES "^(${headers})" AND NOT file MATCHES "^(${files})")
      message(SEND_ERROR "${file} includes ${header}, which belongs in ${files} only")
    endif()
  endwhile()
endfunction()

list_sources(folders files)
list(LENGTH files n_files)
if(n_files EQUAL 0)
  message(FATAL_ERROR "no sources below ${ROOT}")
endif()
list(JOIN folders "|" own)
foreach(file IN LISTS files)
  find_rule(${file} allowed)
  if(NOT allowed)
    message(SEND_ERROR "${file}: no rule in deps_test.cmake says what this folder may include")
    continue()
  endif()
  file(STRINGS ${ROOT}/${file} lines REGEX "^[ \t]*#[ \t]*include[ \t]*[<\"]")
  foreach(line IN LISTS lines)
    string(REGEX MATCH "[<\"]([^>\"]+)" matched "${line}")
    set(header ${CMAKE_MATCH_1})
    if(matched MATCHES "^\"" OR header MATCHES "^(${own})/")
      check_own(${file} ${header})
    else()
      check_system(${file} ${header})
    endif()
  endforeach()
endforeach()
message(STATUS "${n_files} sources checked")
