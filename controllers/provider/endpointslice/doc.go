// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

// Package endpointslice keeps the EndpointSlice of each ShadowEndpointSlice on a provider.
// Its endpoints are ready only while the consumer can be reached, and those with addresses
// of the provider itself are left out.
package endpointslice
