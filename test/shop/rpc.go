// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"log/slog"
	"net"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/protobuf/types/known/structpb"
)

// method implements a method of a gRPC service. Its messages are of type google.protobuf.Struct, so
// that no generated code is needed.
type method func(ctx context.Context, in *structpb.Struct) (map[string]any, error)

// serveRPC serves gRPC until the context ends, on the address in ADDRESS or on port 9090. It
// includes the gRPC health service for probes.
func serveRPC(ctx context.Context, name string, methods map[string]method) error {
	description := grpc.ServiceDesc{ServiceName: name, HandlerType: (*any)(nil)}
	for method, answer := range methods {
		description.Methods = append(description.Methods, grpc.MethodDesc{MethodName: method, Handler: answer.handle})
	}
	server := grpc.NewServer(grpc.MaxRecvMsgSize(maxBody))
	server.RegisterService(&description, nil)
	grpc_health_v1.RegisterHealthServer(server, health.NewServer())
	listener, err := net.Listen("tcp", env("ADDRESS", ":9090"))
	if err != nil {
		return err
	}
	slog.Info("serves gRPC", "address", listener.Addr().String(), "service", name)
	stopped := context.AfterFunc(ctx, server.GracefulStop)
	defer stopped()
	return server.Serve(listener)
}

func (m method) handle(_ any, ctx context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
	var in structpb.Struct
	if err := decode(&in); err != nil {
		return nil, err
	}
	answer, err := m(ctx, &in)
	slog.Info("answered", "request", in.String(), "error", err)
	if err != nil {
		return nil, err
	}
	return structpb.NewStruct(answer)
}

// call calls a method of a gRPC service. target is host and port, for example "catalog:9090".
func call(ctx context.Context, target, method string, in map[string]any) (map[string]any, error) {
	sent, err := structpb.NewStruct(in)
	if err != nil {
		return nil, err
	}
	connection, err := grpc.NewClient(target, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return nil, err
	}
	defer connection.Close()
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	var answer structpb.Struct
	if err := connection.Invoke(ctx, method, sent, &answer); err != nil {
		return nil, fmt.Errorf("%s of %s: %w", method, target, err)
	}
	return answer.AsMap(), nil
}
