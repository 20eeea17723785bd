// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

// Package install registers every version of the federation API in a scheme.
package install

import (
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"

	"liqo.io/federation/apiserver/apis/federation"
	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
)

// Install registers the internal and the served versions of the API in scheme, with the priority of
// versions. It panics if a registration fails.
func Install(scheme *runtime.Scheme) {
	utilruntime.Must(federation.AddToScheme(scheme))
	utilruntime.Must(v1alpha1.AddToScheme(scheme))
	utilruntime.Must(scheme.SetVersionPriority(v1alpha1.SchemeGroupVersion))
}
