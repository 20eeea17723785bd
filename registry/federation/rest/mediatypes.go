// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"slices"

	"k8s.io/apimachinery/pkg/runtime"
)

// withoutProtobuf offers what the wrapped serializer does, but for protobuf,
// which our types do not speak. A client that accepts both gets JSON. Offering
// it would fail those that prefer it, and with them the deletion of every
// namespace: the namespace controller is one of them.
type withoutProtobuf struct{ runtime.NegotiatedSerializer }

// SupportedMediaTypes is the list that a request's Accept and Content-Type are
// matched with.
func (s withoutProtobuf) SupportedMediaTypes() []runtime.SerializerInfo {
	return slices.DeleteFunc(slices.Clone(s.NegotiatedSerializer.SupportedMediaTypes()), func(info runtime.SerializerInfo) bool {
		return info.MediaType == runtime.ContentTypeProtobuf
	})
}
