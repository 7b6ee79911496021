"builtin.module"() <{sym_name = "m"}> ({
  "func.func"() <{function_type = (tensor<16x8xf32>, tensor<i1>, tensor<i32>) -> tensor<16x8xf32>, sym_name = "main"}> ({
  ^bb0(%arg0: tensor<16x8xf32>, %arg1: tensor<i1>, %arg2: tensor<i32>):
    %0 = "stablehlo.if"(%arg1) ({
      "stablehlo.return"(%arg0) : (tensor<16x8xf32>) -> ()
    }, {
      %10 = "stablehlo.reduce_scatter"(%arg0) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1], [2, 3]]> : tensor<2x2xi64>, scatter_dimension = 0 : i64, use_global_device_ids}> ({
      ^bb0(%arg3: tensor<f32>, %arg4: tensor<f32>):
        %12 = "stablehlo.add"(%arg3, %arg4) : (tensor<f32>, tensor<f32>) -> tensor<f32>
        "stablehlo.return"(%12) : (tensor<f32>) -> ()
      }) : (tensor<16x8xf32>) -> tensor<8x8xf32>
      %11 = "stablehlo.concatenate"(%10, %10) <{dimension = 0 : i64}> : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<16x8xf32>
      "stablehlo.return"(%11) : (tensor<16x8xf32>) -> ()
    }) : (tensor<i1>) -> tensor<16x8xf32>
    %1 = "stablehlo.case"(%arg2) ({
      "stablehlo.return"(%arg0) : (tensor<16x8xf32>) -> ()
    }, {
      "stablehlo.return"(%0) : (tensor<16x8xf32>) -> ()
    }) : (tensor<i32>) -> tensor<16x8xf32>
    %2 = "stablehlo.create_token"() : () -> !stablehlo.token
    %3:2 = "stablehlo.recv"(%2) <{channel_handle = #stablehlo.channel_handle<handle = 5, type = 3>, is_host_transfer = true}> : (!stablehlo.token) -> (tensor<3x4xi32>, !stablehlo.token)
    %4 = "stablehlo.send"(%3#0, %3#1) <{channel_handle = #stablehlo.channel_handle<handle = 5, type = 2>, is_host_transfer = true}> : (tensor<3x4xi32>, !stablehlo.token) -> !stablehlo.token
    %5 = "stablehlo.collective_broadcast"(%arg0) <{channel_handle = #stablehlo.channel_handle<handle = 7, type = 1>, replica_groups = dense<[[0, 1], [2, 3]]> : tensor<2x2xi64>}> : (tensor<16x8xf32>) -> tensor<16x8xf32>
    %6:2 = "stablehlo.all_gather"(%arg0, %arg0) <{all_gather_dim = 1 : i64, replica_groups = dense<> : tensor<0x0xi64>}> : (tensor<16x8xf32>, tensor<16x8xf32>) -> (tensor<16x16xf32>, tensor<16x16xf32>)
    %7 = "stablehlo.convert"(%arg0) : (tensor<16x8xf32>) -> tensor<16x8xf8E4M3FN>
    %8 = "stablehlo.convert"(%arg0) : (tensor<16x8xf32>) -> tensor<16x8xi4>
    %9 = "stablehlo.complex"(%arg0, %arg0) : (tensor<16x8xf32>, tensor<16x8xf32>) -> tensor<16x8xcomplex<f32>>
    "func.return"(%1) : (tensor<16x8xf32>) -> ()
  }) : () -> ()
}) : () -> ()

