// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

// Package offloading implements the admission plugin that refuses to offload namespaces of Kubernetes and of the
// federation. It also refuses to select the name of another namespace for remote namespaces, unless the user may
// offload that namespace, too. It admits or refuses the creation of NamespaceOffloadings, directly or by the verb
// offload.
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
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/initializer"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/client-go/kubernetes"

	"liqo.io/federation/apiserver/apis/federation"
	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/naming"
)

// Name is the name of the plugin in --enable-admission-plugins and --disable-admission-plugins.
const Name = "NamespaceOffloading"

// system are the namespaces of Kubernetes.
var system = []string{metav1.NamespaceSystem, metav1.NamespacePublic, corev1.NamespaceNodeLease}

// Register registers the plugin. The function cluster returns the name of the local cluster and the namespaces of the
// installation, which the plugin protects in addition to the namespaces of Kubernetes. It is executed after the flags
// are parsed.
func Register(plugins *admission.Plugins, cluster func() (name string, own []string)) {
	plugins.Register(Name, func(io.Reader) (admission.Interface, error) { return New(cluster()), nil })
}

// Plugin refuses to offload a namespace of Kubernetes or of the federation. It also refuses to select, for remote
// namespaces, a name that validateName refuses. Create it with New.
type Plugin struct {
	*admission.Handler
	client      kubernetes.Interface
	authorizer  authorizer.UnconditionalAuthorizer
	clusterName string
	own         []string
}

// New returns the plugin. clusterName is the name of the local cluster. own are the namespaces of the installation,
// which the plugin protects in addition to the namespaces of Kubernetes.
func New(clusterName string, own []string) *Plugin {
	return &Plugin{Handler: admission.NewHandler(admission.Create), clusterName: clusterName, own: own}
}

// SetExternalKubeClientSet sets the client with which Validate reads namespaces.
func (p *Plugin) SetExternalKubeClientSet(client kubernetes.Interface) { p.client = client }

// SetUnconditionalAuthorizer sets the authorizer that decides who may select the name of another namespace.
func (p *Plugin) SetUnconditionalAuthorizer(authorizer authorizer.UnconditionalAuthorizer) {
	p.authorizer = authorizer
}

// ValidateInitialization returns an error if the plugin has no client or no authorizer.
func (p *Plugin) ValidateInitialization() error {
	if p.client == nil {
		return errors.New("the plugin " + Name + " has no client to read namespaces with")
	}
	if p.authorizer == nil {
		return errors.New("the plugin " + Name + " has no authorizer")
	}
	return nil
}

// Validate returns 403 for a namespace of Kubernetes or of the federation, and for a name of remote namespaces that
// validateName refuses, 409 for a terminating namespace, and 404 for a namespace that does not exist. It reads
// namespaces from kube-apiserver: requests are rare, and a cache could be stale.
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
	return p.validateName(ctx, attributes)
}

// validateName returns 403 if the request selects, for remote namespaces, the name of another local namespace, or the
// name that the mapping DefaultName generates for another local namespace, unless the user is permitted to offload that
// other namespace: its own remote namespace could no longer be created.
func (p *Plugin) validateName(ctx context.Context, attributes admission.Attributes) error {
	name := selectedName(attributes.GetObject())
	if name == "" {
		return nil
	}
	namespaces, err := p.client.CoreV1().Namespaces().List(ctx, metav1.ListOptions{})
	if err != nil {
		return apierrors.NewInternalError(fmt.Errorf("listing namespaces: %w", err))
	}
	var clusterID string
	for i := range namespaces.Items {
		if namespace := &namespaces.Items[i]; namespace.Name == metav1.NamespaceSystem {
			clusterID = string(namespace.UID)
		}
	}
	for i := range namespaces.Items {
		other := namespaces.Items[i].Name
		if other == attributes.GetNamespace() ||
			other != name && naming.UniqueRemoteNamespace(other, p.clusterName, clusterID) != name {
			continue
		}
		decision, _, err := p.authorizer.Authorize(ctx, authorizer.AttributesRecord{
			User: attributes.GetUserInfo(), Verb: "create", Namespace: other, Name: attributes.GetName(),
			APIGroup: attributes.GetResource().Group, APIVersion: attributes.GetResource().Version,
			Resource: attributes.GetResource().Resource, Subresource: attributes.GetSubresource(), ResourceRequest: true,
		})
		if decision != authorizer.DecisionAllow {
			// The reason of the authorizer may describe namespaces that the user cannot read.
			return admission.NewForbidden(attributes, errors.Join(fmt.Errorf(
				"the remote namespace %s is reserved for another namespace, which you may not offload: "+
					"select another remoteNamespaceName", name), err))
		}
	}
	return nil
}

// selectedName returns the name of remote namespaces that a request selects; empty if it selects none.
func selectedName(object runtime.Object) string {
	var spec federation.NamespaceOffloadingSpec
	switch requested := object.(type) {
	case *federation.NamespaceOffloading:
		spec = requested.Spec
	case *federation.Offload:
		spec = requested.Spec
	}
	if spec.NamespaceMappingStrategy != federation.SelectedName {
		return ""
	}
	return spec.RemoteNamespaceName
}

var (
	_ admission.ValidationInterface            = &Plugin{}
	_ admission.InitializationValidator        = &Plugin{}
	_ initializer.WantsExternalKubeClientSet   = &Plugin{}
	_ initializer.WantsUnconditionalAuthorizer = &Plugin{}
)
