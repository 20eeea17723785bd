// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package offloading

import (
	"errors"
	"net/http"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/client-go/kubernetes/fake"

	"liqo.io/federation/apiserver/apis/federation"
	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
)

func TestOnlyNamespacesOfUsersAreOffloaded(t *testing.T) {
	namespace := func(name, role string) *corev1.Namespace {
		labels := map[string]string{}
		if role != "" {
			labels[v1alpha1.LabelRole] = role
		}
		return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}
	}
	now := metav1.Now()
	terminating := namespace("terminating", "")
	terminating.DeletionTimestamp, terminating.Finalizers = &now, []string{"kubernetes"}
	plugin := New([]string{"liqo", "liqo-invitations"})
	if plugin.ValidateInitialization() == nil {
		t.Error("a plugin without a client is ready")
	}
	plugin.SetExternalKubeClientSet(fake.NewClientset(terminating, namespace("web", ""), namespace("default", ""),
		namespace("kube-system", ""), namespace("liqo", ""),
		namespace("liqo-peer-milan", v1alpha1.RolePeer), namespace("liqo-tenant-milan", v1alpha1.RoleTenant),
		namespace("web-rome", v1alpha1.RoleRemoteNamespace)))
	if err := plugin.ValidateInitialization(); err != nil {
		t.Error(err)
	}
	for name, code := range map[string]int32{
		"web": http.StatusOK, "default": http.StatusOK,
		"kube-system": http.StatusForbidden, "kube-public": http.StatusForbidden, "kube-node-lease": http.StatusForbidden,
		"liqo": http.StatusForbidden, "liqo-invitations": http.StatusForbidden,
		"liqo-peer-milan": http.StatusForbidden, "liqo-tenant-milan": http.StatusForbidden, "web-rome": http.StatusForbidden,
		"terminating": http.StatusConflict, "missing": http.StatusNotFound,
	} {
		for _, subresource := range []string{"", "offload"} {
			err := plugin.Validate(t.Context(), attributes("namespaceoffloadings", subresource, name), nil)
			got := int32(http.StatusOK)
			var status apierrors.APIStatus
			if errors.As(err, &status) {
				got = status.Status().Code
			} else if err != nil {
				t.Errorf("%s: %v has no status", name, err)
			}
			if got != code {
				t.Errorf("%s/%s: got %v, want status %d", name, subresource, err, code)
			}
		}
	}
}

func TestOtherRequestsPass(t *testing.T) {
	plugin := New(nil)
	for _, other := range []admission.Attributes{
		attributes("shadowpods", "", "kube-system"), attributes("namespaceoffloadings", "status", "kube-system"),
	} {
		if err := plugin.Validate(t.Context(), other, nil); err != nil {
			t.Errorf("%s/%s is refused: %v", other.GetResource().Resource, other.GetSubresource(), err)
		}
	}
	if plugin.Handles(admission.Update) || plugin.Handles(admission.Delete) || !plugin.Handles(admission.Create) {
		t.Error("the plugin handles more than creations")
	}
}

func attributes(resource, subresource, namespace string) admission.Attributes {
	return admission.NewAttributesRecord(&federation.NamespaceOffloading{}, nil,
		v1alpha1.SchemeGroupVersion.WithKind("NamespaceOffloading"),
		namespace, v1alpha1.NamespaceOffloadingName, v1alpha1.SchemeGroupVersion.WithResource(resource), subresource,
		admission.Create, &metav1.CreateOptions{}, false, nil)
}
