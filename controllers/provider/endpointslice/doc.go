// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

// Package endpointslice ensures an EndpointSlice for each ShadowEndpointSlice on a provider. The
// endpoints are ready only while the consumer can be reached. Endpoints with addresses of the provider's
// own nodes, pods or Services are left out.
package endpointslice
