"builtin.module"() <{sym_name = "m"}> ({
  "sdy.mesh"() <{mesh = #sdy.mesh<["x"=4, "y"=2]>, sym_name = "mesh"}> : () -> ()
  "sdy.mesh"() <{mesh = #sdy.mesh<["x"=4, "y"=2], device_ids=[7, 6, 5, 4, 3, 2, 1, 0]>, sym_name = "dev"}> : () -> ()
  "sdy.mesh"() <{mesh = #sdy.mesh<[]>, sym_name = "empty"}> : () -> ()
  "sdy.mesh"() <{mesh = #sdy.mesh<[], device_ids=[3]>, sym_name = "max"}> : () -> ()
  "func.func"() <{arg_attrs = [{sdy.sharding = #sdy.sharding<@mesh, [{"y"}, {}, {"x"}]>}, {sdy.sharding = #sdy.sharding<@dev, [{}, {}, {}]>}], function_type = (tensor<16x16x16xf32>, tensor<16x16x16xf32>) -> tensor<16x16x16xf32>, sym_name = "main"}> ({
  ^bb0(%arg1: tensor<16x16x16xf32>, %arg2: tensor<16x16x16xf32>):
    %2 = "sdy.all_gather"(%arg1) <{gathering_axes = #sdy<list_of_axis_ref_lists[{}, {}, {"x":(2)2}]>, out_sharding = #sdy.sharding<@mesh, [{"y"}, {}, {"x":(1)2}]>}> : (tensor<16x16x16xf32>) -> tensor<16x16x16xf32>
    %3 = "sdy.all_reduce"(%arg2) <{out_sharding = #sdy.sharding<@dev, [{}, {}, {}]>, reduction_axes = #sdy<axis_ref_list{"x", "y"}>, reduction_op = 0 : i32}> : (tensor<16x16x16xf32>) -> tensor<16x16x16xf32>
    %4 = "sdy.all_to_all"(%arg1) <{out_sharding = #sdy.sharding<@mesh, [{"y"}, {"x"}, {}]>, params = #sdy<all_to_all_param_list[{"x"}: 2->1]>}> : (tensor<16x16x16xf32>) -> tensor<16x16x16xf32>
    %5 = "sdy.all_slice"(%arg2) <{out_sharding = #sdy.sharding<@dev, [{}, {"x"}, {}]>, slicing_axes = #sdy<list_of_axis_ref_lists[{}, {"x"}, {}]>}> : (tensor<16x16x16xf32>) -> tensor<16x16x16xf32>
    %6 = "sdy.collective_permute"(%arg1) <{out_sharding = #sdy.sharding<@mesh, [{"x":(1)2}, {}, {"x":(2)2, "y"}]>}> : (tensor<16x16x16xf32>) -> tensor<16x16x16xf32>
    %7 = "sdy.reduce_scatter"(%arg2) <{out_sharding = #sdy.sharding<@dev, [{}, {"x"}, {}]>, reduce_scatter_axes = #sdy<list_of_axis_ref_lists[{}, {"x"}, {}]>, reduction_op = 0 : i32}> : (tensor<16x16x16xf32>) -> tensor<16x16x16xf32>
    %8 = "sdy.manual_computation"(%arg1) <{in_shardings = #sdy.sharding_per_value<[<@mesh, [{"y"}, {}, {"x"}]>]>, manual_axes = #sdy<manual_axes{"x", "y"}>, out_shardings = #sdy.sharding_per_value<[<@mesh, [{"y"}, {}, {"x"}]>]>}> ({
    ^bb0(%arg7: tensor<8x16x4xf32>):
      %16 = "stablehlo.all_reduce"(%arg7) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1], [2, 3], [4, 5], [6, 7]]> : tensor<4x2xi64>, use_global_device_ids}> ({
      ^bb0(%arg8: tensor<f32>, %arg9: tensor<f32>):
        %17 = "stablehlo.add"(%arg8, %arg9) : (tensor<f32>, tensor<f32>) -> tensor<f32>
        "stablehlo.return"(%17) : (tensor<f32>) -> ()
      }) : (tensor<8x16x4xf32>) -> tensor<8x16x4xf32>
      "sdy.return"(%16) : (tensor<8x16x4xf32>) -> ()
    }) : (tensor<16x16x16xf32>) -> tensor<16x16x16xf32>
    %9 = "stablehlo.constant"() <{value = dense<0> : tensor<i32>}> : () -> tensor<i32>
    %10 = "stablehlo.constant"() <{value = dense<12> : tensor<i32>}> : () -> tensor<i32>
    %11:2 = "stablehlo.while"(%9, %arg1) ({
    ^bb0(%arg5: tensor<i32>, %arg6: tensor<16x16x16xf32>):
      %15 = "stablehlo.compare"(%arg5, %10) <{compare_type = #stablehlo<comparison_type SIGNED>, comparison_direction = #stablehlo<comparison_direction LT>}> : (tensor<i32>, tensor<i32>) -> tensor<i1>
      "stablehlo.return"(%15) : (tensor<i1>) -> ()
    }, {
    ^bb0(%arg3: tensor<i32>, %arg4: tensor<16x16x16xf32>):
      %12 = "stablehlo.constant"() <{value = dense<1> : tensor<i32>}> : () -> tensor<i32>
      %13 = "stablehlo.add"(%arg3, %12) : (tensor<i32>, tensor<i32>) -> tensor<i32>
      %14 = "func.call"(%arg4) <{callee = @f}> : (tensor<16x16x16xf32>) -> tensor<16x16x16xf32>
      "stablehlo.return"(%13, %14) : (tensor<i32>, tensor<16x16x16xf32>) -> ()
    }) : (tensor<i32>, tensor<16x16x16xf32>) -> (tensor<i32>, tensor<16x16x16xf32>)
    "func.return"(%8) : (tensor<16x16x16xf32>) -> ()
  }) : () -> ()
  "func.func"() <{function_type = (tensor<16x16x16xf32>) -> tensor<16x16x16xf32>, sym_name = "f", sym_visibility = "private"}> ({
  ^bb0(%arg0: tensor<16x16x16xf32>):
    %0 = "stablehlo.all_gather"(%arg0) <{all_gather_dim = 0 : i64, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1, 2, 3], [4, 5, 6, 7]]> : tensor<2x4xi64>, use_global_device_ids}> : (tensor<16x16x16xf32>) -> tensor<64x16x16xf32>
    %1 = "stablehlo.constant"() <{value = dense<[1, 2, 3, 4]> : tensor<4xi8>}> : () -> tensor<4xi8>
    "func.return"(%arg0) : (tensor<16x16x16xf32>) -> ()
  }) : () -> ()
}) {mhlo.num_partitions = 8 : i32} : () -> ()

