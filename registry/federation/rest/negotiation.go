// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"slices"

	"k8s.io/apimachinery/pkg/runtime"
)

// withoutProtobuf leaves protobuf out of what a client can choose from: our
// types have no encoding for it. A client that would rather have protobuf, as
// the garbage collector, then gets JSON instead of an error.
type withoutProtobuf struct {
	runtime.NegotiatedSerializer
}

// SupportedMediaTypes returns those that every type of ours can be written in.
func (s withoutProtobuf) SupportedMediaTypes() []runtime.SerializerInfo {
	return slices.DeleteFunc(slices.Clone(s.NegotiatedSerializer.SupportedMediaTypes()), func(info runtime.SerializerInfo) bool {
		return info.MediaType == runtime.ContentTypeProtobuf
	})
}
