// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

// Package install puts every version of the federation API into a scheme.
package install

import (
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"

	"liqo.io/federation/apiserver/apis/federation"
	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
)

// Install adds the internal and the served versions to scheme and says in
// which order the versions are preferred. It panics when they contradict each
// other, which is a mistake in the types.
func Install(scheme *runtime.Scheme) {
	utilruntime.Must(federation.AddToScheme(scheme))
	utilruntime.Must(v1alpha1.AddToScheme(scheme))
	utilruntime.Must(scheme.SetVersionPriority(v1alpha1.SchemeGroupVersion))
}
