// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

// Package offloading implements the admission plugin that refuses to offload namespaces of Kubernetes
// and of the federation. It admits or refuses the creation of NamespaceOffloadings, directly or by the
// verb offload.
package offloading

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/initializer"
	"k8s.io/client-go/kubernetes"

	"liqo.io/federation/apiserver/apis/federation"
	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
)

// Name is the name of the plugin in --enable-admission-plugins and --disable-admission-plugins.
const Name = "NamespaceOffloading"

// system are the namespaces of Kubernetes.
var system = []string{metav1.NamespaceSystem, metav1.NamespacePublic, corev1.NamespaceNodeLease}

// Register registers the plugin. It also protects the namespaces that own returns; own is called after
// the flags are parsed.
func Register(plugins *admission.Plugins, own func() []string) {
	plugins.Register(Name, func(io.Reader) (admission.Interface, error) { return New(own()), nil })
}

// Plugin refuses to offload a namespace of Kubernetes or of the federation. Create it with New.
type Plugin struct {
	*admission.Handler
	client kubernetes.Interface
	own    []string
}

// New returns the plugin. own are the namespaces of the installation, which it protects as well.
func New(own []string) *Plugin {
	return &Plugin{Handler: admission.NewHandler(admission.Create), own: own}
}

// SetExternalKubeClientSet sets the client with which Validate reads namespaces.
func (p *Plugin) SetExternalKubeClientSet(client kubernetes.Interface) { p.client = client }

// ValidateInitialization returns an error if the plugin has no client.
func (p *Plugin) ValidateInitialization() error {
	if p.client == nil {
		return errors.New("the plugin " + Name + " has no client to read namespaces with")
	}
	return nil
}

// Validate returns 403 for a protected namespace, 409 for a terminating namespace, and 404 for a
// namespace that does not exist. It reads the namespace from kube-apiserver: requests are rare, and a
// cache could be stale.
func (p *Plugin) Validate(ctx context.Context, attributes admission.Attributes, _ admission.ObjectInterfaces) error {
	if attributes.GetResource().GroupResource() != federation.Resource("namespaceoffloadings") {
		return nil
	}
	if subresource := attributes.GetSubresource(); subresource != "" && subresource != "offload" {
		return nil
	}
	name := attributes.GetNamespace()
	if slices.Contains(system, name) || slices.Contains(p.own, name) {
		return admission.NewForbidden(attributes,
			fmt.Errorf("namespace %s belongs to Kubernetes or to the federation and cannot be offloaded", name))
	}
	namespace, err := p.client.CoreV1().Namespaces().Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return err
	}
	if err != nil {
		return apierrors.NewInternalError(fmt.Errorf("reading namespace %s: %w", name, err))
	}
	if role := namespace.Labels[v1alpha1.LabelRole]; role != "" {
		return admission.NewForbidden(attributes,
			fmt.Errorf("namespace %s is a %s namespace of the federation and cannot be offloaded", name, role))
	}
	if namespace.DeletionTimestamp != nil {
		return apierrors.NewConflict(corev1.Resource("namespaces"), name,
			errors.New("it is being deleted and cannot be offloaded"))
	}
	return nil
}

var (
	_ admission.ValidationInterface          = &Plugin{}
	_ admission.InitializationValidator      = &Plugin{}
	_ initializer.WantsExternalKubeClientSet = &Plugin{}
)
