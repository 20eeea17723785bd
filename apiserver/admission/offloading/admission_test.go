// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package offloading

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/client-go/kubernetes/fake"

	"liqo.io/federation/apiserver/apis/federation"
	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/naming"
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
	plugin := New("rome", []string{"liqo", "liqo-invitations"})
	if plugin.ValidateInitialization() == nil {
		t.Error("a plugin without a client is ready")
	}
	plugin.SetExternalKubeClientSet(fake.NewClientset(terminating, namespace("web", ""), namespace("default", ""),
		namespace("kube-system", ""), namespace("liqo", ""),
		namespace("liqo-peer-milan", v1alpha1.RolePeer), namespace("liqo-tenant-milan", v1alpha1.RoleTenant),
		namespace("web-rome", v1alpha1.RoleRemoteNamespace)))
	if plugin.ValidateInitialization() == nil {
		t.Error("a plugin without an authorizer is ready")
	}
	plugin.SetUnconditionalAuthorizer(authorizer.AuthorizerFunc(nil))
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

func TestSelectedNameIsNotThatOfAnotherNamespace(t *testing.T) {
	const id = "0c9e8d7f-1a2b-4c3d-8e4f-5a6b7c8d9e0f"
	namespace := func(name string, uid types.UID) *corev1.Namespace {
		return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, UID: uid}}
	}
	long := strings.Repeat("long-", 12)
	plugin := New("rome", nil)
	plugin.SetExternalKubeClientSet(fake.NewClientset(namespace("kube-system", id), namespace("web", ""),
		namespace("payments", ""), namespace("own", ""), namespace(long+"x", "")))
	plugin.SetUnconditionalAuthorizer(authorizer.AuthorizerFunc(
		func(_ context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
			if a.GetVerb() != "create" || a.GetResource() != "namespaceoffloadings" || a.GetUser().GetName() != "an-editor" {
				t.Errorf("%s may %s %s is asked", a.GetUser().GetName(), a.GetVerb(), a.GetResource())
			}
			if a.GetNamespace() == "own" {
				return authorizer.DecisionAllow, "", nil
			}
			return authorizer.DecisionNoOpinion, "", nil
		}))
	spec := func(name string) federation.NamespaceOffloadingSpec {
		return federation.NamespaceOffloadingSpec{
			NamespaceMappingStrategy: federation.SelectedName, RemoteNamespaceName: name,
		}
	}
	for name, permitted := range map[string]bool{
		"bakery": true, "web": true, "own": true, "payments": false,
		naming.UniqueRemoteNamespace("web", "rome", id):      true,
		naming.UniqueRemoteNamespace("own", "rome", id):      true,
		naming.UniqueRemoteNamespace("payments", "rome", id): false,
		naming.UniqueRemoteNamespace(long+"x", "rome", id):   false,
		naming.UniqueRemoteNamespace("missing", "rome", id):  true,
	} {
		for subresource, object := range map[string]runtime.Object{
			"": &federation.NamespaceOffloading{Spec: spec(name)}, "offload": &federation.Offload{Spec: spec(name)},
		} {
			request := admission.NewAttributesRecord(object, nil, v1alpha1.SchemeGroupVersion.WithKind("NamespaceOffloading"),
				"web", v1alpha1.NamespaceOffloadingName, v1alpha1.SchemeGroupVersion.WithResource("namespaceoffloadings"),
				subresource, admission.Create, &metav1.CreateOptions{}, false, &user.DefaultInfo{Name: "an-editor"})
			if err := plugin.Validate(t.Context(), request, nil); apierrors.IsForbidden(err) == permitted {
				t.Errorf("%q by %q: got %v, want permitted %t", name, subresource, err, permitted)
			}
		}
	}
}

func TestOtherRequestsPass(t *testing.T) {
	plugin := New("rome", nil)
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
