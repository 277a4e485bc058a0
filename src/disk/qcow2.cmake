boxlite_library(qcow2
  SRCS block_io.cc raw_file.cc qcow2.cc qcow2_allocator.cc qcow2_backing.cc qcow2_check.cc qcow2_engine.cc
       qcow2_format.cc qcow2_tables.cc
  DEPS boxlite_base)
boxlite_unit_test(qcow2 SRCS qcow2_test.cc DEPS boxlite_qcow2)
boxlite_unit_test(qcow2_crash SRCS qcow2_crash_test.cc DEPS boxlite_qcow2 TIMEOUT 600)

# cmake -DBOXLITE_FUZZ=ON with clang++; qcow2_fuzz -max_total_time=60 CORPUS_FOLDER
if(BOXLITE_FUZZ)
  add_executable(qcow2_fuzz ${CMAKE_SOURCE_DIR}/tests/fuzz/qcow2_fuzz.cc)
  target_link_libraries(qcow2_fuzz PRIVATE boxlite_qcow2)
  target_link_options(qcow2_fuzz PRIVATE -fsanitize=fuzzer)
endif()
