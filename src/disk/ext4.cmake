pkg_check_modules(EXT2FS REQUIRED IMPORTED_TARGET ext2fs com_err)
boxlite_library(ext4 SRCS ext4_blocks.cc ext4_directory.cc ext4_format.cc ext4_inode.cc ext4_io.cc ext4_writer.cc
                DEPS boxlite_base)
target_link_libraries(boxlite_ext4 PRIVATE PkgConfig::EXT2FS)

add_library(boxlite_ext4_testing STATIC ext4_testing.cc)
target_link_libraries(boxlite_ext4_testing PUBLIC boxlite_ext4 PRIVATE PkgConfig::EXT2FS)
boxlite_unit_test(ext4_writer SRCS ext4_writer_test.cc DEPS boxlite_ext4_testing)

add_executable(ext4_large_test ext4_large_test.cc)
target_link_libraries(ext4_large_test PRIVATE boxlite_ext4_testing GTest::gtest GTest::gtest_main)
add_test(NAME ext4_large COMMAND ext4_large_test)
set_tests_properties(ext4_large PROPERTIES LABELS integration TIMEOUT 300)
