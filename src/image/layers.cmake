pkg_check_modules(LAYER_CODECS REQUIRED IMPORTED_TARGET libisal libzstd)
boxlite_library(layers SRCS layer_apply.cc layer_decompress.cc layer_root.cc layer_stream.cc layer_tar.cc
                            layer_tar_pax.cc rootfs.cc
                DEPS boxlite_image boxlite_ext4 boxlite_base)
target_link_libraries(boxlite_layers PRIVATE PkgConfig::LAYER_CODECS)

add_library(boxlite_layers_testing STATIC layer_testing.cc)
target_link_libraries(boxlite_layers_testing PUBLIC boxlite_layers boxlite_ext4_testing)
boxlite_unit_test(layers SRCS layer_stream_test.cc layer_tar_test.cc rootfs_test.cc DEPS boxlite_layers_testing)
boxlite_unit_test(layers_umoci SRCS rootfs_umoci_test.cc DEPS boxlite_layers_testing)

add_executable(rootfs_debian_test rootfs_debian_test.cc)
target_link_libraries(rootfs_debian_test PRIVATE boxlite_layers_testing GTest::gtest GTest::gtest_main)
add_test(NAME rootfs_debian COMMAND rootfs_debian_test)
set_tests_properties(rootfs_debian PROPERTIES LABELS integration TIMEOUT 600)
