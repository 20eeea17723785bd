// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package placement_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/placement"
)

func TestOnlyNamespacesOfUsersAreOffloaded(t *testing.T) {
	for name, test := range map[string]struct {
		namespace, scheduling, role string
		want                        bool
	}{
		"offloaded":                    {"shop", "true", "", true},
		"not offloaded":                {"shop", "", "", false},
		"unoffloaded":                  {"shop", "false", "", false},
		"a remote namespace":           {"shop", "true", v1alpha1.RoleRemoteNamespace, false},
		"of Kubernetes":                {"kube-system", "true", "", false},
		"of leases":                    {"kube-node-lease", "true", "", false},
		"the installation namespace":   {"liqo", "true", "", false},
		"the namespace of invitations": {"liqo-invitations", "true", "", false},
		"with a prefix of Kubernetes":  {"kube-shop", "true", "", true},
	} {
		t.Run(name, func(t *testing.T) {
			namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: test.namespace, Labels: map[string]string{
				v1alpha1.LabelSchedulingEnabled: test.scheduling, v1alpha1.LabelRole: test.role,
			}}}
			if got := placement.Offloaded(namespace, "liqo", "liqo-invitations"); got != test.want {
				t.Errorf("offloaded: got %t", got)
			}
		})
	}
}
