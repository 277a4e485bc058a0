boxlite_library(qcow2
  SRCS block_io.cc raw_file.cc qcow2.cc qcow2_allocator.cc qcow2_backing.cc qcow2_check.cc qcow2_engine.cc
       qcow2_flatten.cc qcow2_format.cc qcow2_tables.cc
  DEPS boxlite_base)
boxlite_unit_test(qcow2 SRCS qcow2_flatten_test.cc qcow2_test.cc DEPS boxlite_qcow2)
boxlite_unit_test(qcow2_crash SRCS qcow2_crash_test.cc DEPS boxlite_qcow2 TIMEOUT 600)
