# Compiler settings and the three helpers that every folder uses.

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
# Lines for back traces; full debug information costs a quarter of the build's time.
set(CMAKE_CXX_FLAGS_RELWITHDEBINFO "-O2 -g1 -DNDEBUG")
set(BOXLITE_SANITIZE "" CACHE STRING "value for -fsanitize=, empty for none")

find_program(CCACHE ccache)
if(CCACHE)
  set(CMAKE_C_COMPILER_LAUNCHER ${CCACHE})
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CCACHE})
endif()

add_compile_options(-Wall -Wextra -Werror -Wvla -Wno-missing-field-initializers
                    $<$<COMPILE_LANGUAGE:CXX>:-Wnon-virtual-dtor> -fno-omit-frame-pointer)
add_compile_definitions(_GNU_SOURCE _FILE_OFFSET_BITS=64 $<$<CONFIG:RelWithDebInfo>:_FORTIFY_SOURCE=2>)
add_compile_options($<$<CONFIG:RelWithDebInfo>:-fstack-protector-strong>)
option(BOXLITE_FUZZ "build the libFuzzer programs; needs clang++" OFF)
if(BOXLITE_FUZZ)
  # libFuzzer sees what an input reaches only of code that tells it.
  add_compile_options(-fsanitize=fuzzer-no-link)
  add_link_options(-fsanitize=fuzzer-no-link)
endif()
if(BOXLITE_SANITIZE)
  add_compile_options(-fsanitize=${BOXLITE_SANITIZE} -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${BOXLITE_SANITIZE})
endif()
include_directories(${CMAKE_SOURCE_DIR}/include ${CMAKE_SOURCE_DIR}/src)

# What the distribution has as a static library is linked in: loading shared ones is most of what a short command
# does.
set(CMAKE_FIND_LIBRARY_SUFFIXES .a .so)
add_link_options(-static-libstdc++ -static-libgcc)

find_package(Threads REQUIRED)
find_package(PkgConfig REQUIRED)
find_package(GTest REQUIRED)
find_package(fmt REQUIRED)
enable_testing()

# boxlite_library(NAME SRCS a.cc … DEPS x …): static library boxlite_NAME.
function(boxlite_library name)
  cmake_parse_arguments(A "" "" "SRCS;DEPS" ${ARGN})
  add_library(boxlite_${name} STATIC ${A_SRCS})
  target_link_libraries(boxlite_${name} PUBLIC ${A_DEPS} boxlite_fmt Threads::Threads)
endfunction()

# boxlite_unit_test(NAME SRCS a_test.cc … DEPS x … [TIMEOUT s]): one binary of the quick unit loop,
# ctest label "unit".
function(boxlite_unit_test name)
  cmake_parse_arguments(A "" "TIMEOUT" "SRCS;DEPS" ${ARGN})
  if(NOT A_TIMEOUT)
    set(A_TIMEOUT 120)
  endif()
  add_executable(${name}_test ${A_SRCS})
  target_link_libraries(${name}_test PRIVATE ${A_DEPS} GTest::gtest GTest::gtest_main)
  add_test(NAME ${name} COMMAND ${name}_test)
  set_tests_properties(${name} PROPERTIES LABELS unit TIMEOUT ${A_TIMEOUT})
endfunction()
