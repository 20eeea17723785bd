// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

// Package offloading is the admission plugin that says which namespaces may
// be offloaded, by the verb offload or by a NamespaceOffloading: those of
// users, not those that this cluster or the federation itself runs on.
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

// Name is how the plugin is called on the command line.
const Name = "NamespaceOffloading"

// system are the namespaces that Kubernetes itself runs on.
var system = []string{metav1.NamespaceSystem, metav1.NamespacePublic, corev1.NamespaceNodeLease}

// Register adds the plugin, which also protects the namespaces that own names
// once the command line is read.
func Register(plugins *admission.Plugins, own func() []string) {
	plugins.Register(Name, func(io.Reader) (admission.Interface, error) { return New(own()), nil })
}

// Plugin refuses to offload a namespace that is not a user's.
type Plugin struct {
	*admission.Handler
	client kubernetes.Interface
	own    []string
}

// New makes the plugin, which also protects the namespaces in own.
func New(own []string) *Plugin {
	return &Plugin{Handler: admission.NewHandler(admission.Create), own: own}
}

// SetExternalKubeClientSet takes the client that namespaces are read with.
func (p *Plugin) SetExternalKubeClientSet(client kubernetes.Interface) { p.client = client }

// ValidateInitialization tells whether the plugin has what it needs.
func (p *Plugin) ValidateInitialization() error {
	if p.client == nil {
		return errors.New("the plugin " + Name + " has no client to read namespaces with")
	}
	return nil
}

// Validate refuses a protected namespace with 403, a terminating one with
// 409, and one that does not exist with 404. It reads the namespace itself
// and not a cache, since offloading is rare and its answer has to be right.
func (p *Plugin) Validate(ctx context.Context, attributes admission.Attributes, _ admission.ObjectInterfaces) error {
	if attributes.GetResource().GroupResource() != federation.Resource("namespaceoffloadings") {
		return nil
	}
	if subresource := attributes.GetSubresource(); subresource != "" && subresource != "offload" {
		return nil
	}
	name := attributes.GetNamespace()
	if slices.Contains(system, name) || slices.Contains(p.own, name) {
		return admission.NewForbidden(attributes, fmt.Errorf("namespace %s is the system's own and cannot be offloaded", name))
	}
	namespace, err := p.client.CoreV1().Namespaces().Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return err
	}
	if err != nil {
		return apierrors.NewInternalError(fmt.Errorf("reading namespace %s to see whether it can be offloaded: %w", name, err))
	}
	if role := namespace.Labels[v1alpha1.LabelRole]; role != "" {
		return admission.NewForbidden(attributes, fmt.Errorf("namespace %s is a %s namespace of the federation and cannot be offloaded", name, role))
	}
	if namespace.DeletionTimestamp != nil {
		return apierrors.NewConflict(corev1.Resource("namespaces"), name, errors.New("it is being deleted and cannot be offloaded"))
	}
	return nil
}

var (
	_ admission.ValidationInterface          = &Plugin{}
	_ admission.InitializationValidator      = &Plugin{}
	_ initializer.WantsExternalKubeClientSet = &Plugin{}
)
