// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package resources

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/naming"
	"liqo.io/federation/apiserver/placement"
	"liqo.io/federation/apiserver/podspec"
)

// Reasons of the conditions of a VirtualNode.
const (
	ReasonNoImage          = "NoImage"
	ReasonDeploying        = "Deploying"
	ReasonKubeletAvailable = "Available"
	ReasonNodeMissing      = "NodeMissing"
	ReasonNodeReady        = "NodeReady"
	ReasonNodeNotReady     = "NodeNotReady"
	ReasonBindingOfAnother = "BindingOfAnother"
	ReasonCordoned         = "Cordoned"
	ReasonNetworkReady     = "NetworkReady"
	ReasonNoNetwork        = "NoNetwork"
)

// virtualNodes has a virtual kubelet run for each virtual node, and takes it
// away when the node's pods are gone.
type virtualNodes struct {
	clusterID, clusterName string
	// namespace is where the product is installed.
	namespace string
	kubelet   VirtualKubelet
	clock     clock.PassiveClock

	get            func(namespace, name string) (*v1alpha1.VirtualNode, error)
	commit         func(ctx context.Context, old, wanted *v1alpha1.VirtualNode) (bool, error)
	foreignCluster func(name string) (*v1alpha1.ForeignCluster, error)
	offer          func(namespace, name string) (*v1alpha1.ResourceOffer, error)
	siblings       func(namespace string) ([]*v1alpha1.VirtualNode, error)
	// networking is that of foreign clusters that do not say, and tunnel what was
	// agreed with one.
	networking v1alpha1.NetworkingMode
	tunnel     func(foreignCluster string) (*v1alpha1.TunnelEndpoint, error)
	// readable are the kinds that virtual kubelets may read beside the built-in
	// ones, and served tells how this cluster serves one; nil if it does not.
	readable []metav1.GroupVersionResource
	served   func(ctx context.Context, kind metav1.GroupVersionResource) (*metav1.APIResource, error)

	getAccount    func(namespace, name string) (*corev1.ServiceAccount, error)
	createAccount func(ctx context.Context, account *corev1.ServiceAccount) error
	removeAccount func(ctx context.Context, account *corev1.ServiceAccount) error
	getBinding    func(name string) (*rbacv1.ClusterRoleBinding, error)
	// bindingNow reads it from the API server: what a cache does not know yet
	// would stay for ever.
	bindingNow       func(ctx context.Context, name string) (*rbacv1.ClusterRoleBinding, error)
	createBinding    func(ctx context.Context, binding *rbacv1.ClusterRoleBinding) error
	removeBinding    func(ctx context.Context, binding *rbacv1.ClusterRoleBinding) error
	getDeployment    func(namespace, name string) (*appsv1.Deployment, error)
	createDeployment func(ctx context.Context, deployment *appsv1.Deployment) error
	updateDeployment func(ctx context.Context, deployment *appsv1.Deployment) error
	removeDeployment func(ctx context.Context, deployment *appsv1.Deployment) error

	getNode    func(name string) (*corev1.Node, error)
	cordonNode func(ctx context.Context, node *corev1.Node) error
	// hold cordons a node for as long as its cluster is, or ends that.
	hold       func(ctx context.Context, node *corev1.Node, held bool) error
	removeNode func(ctx context.Context, node *corev1.Node) error
	pods       func(ctx context.Context, node string) ([]*corev1.Pod, bool, error)
	offloaded  func(namespace string) bool
	evictPod   func(ctx context.Context, pod *corev1.Pod) error
	removePod  func(ctx context.Context, pod *corev1.Pod) error
	forgetPods func(node string)
}

func (r *virtualNodes) reconcile(ctx context.Context, key cache.ObjectName) (time.Duration, error) {
	node, err := r.get(key.Namespace, key.Name)
	if apierrors.IsNotFound(err) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	if !naming.IsPeerNamespace(node.Namespace) {
		return 0, nil
	}
	if node.DeletionTimestamp != nil {
		return r.undo(ctx, node)
	}
	if !slices.Contains(node.Finalizers, v1alpha1.Finalizer) {
		wanted := node.DeepCopy()
		wanted.Finalizers = append(wanted.Finalizers, v1alpha1.Finalizer)
		_, err := r.commit(ctx, node, wanted)
		return 0, err
	}
	if err := r.cordon(ctx, node); err != nil {
		return 0, err
	}
	deployment, problem, err := r.deploy(ctx, node)
	if err != nil {
		return 0, err
	}
	wanted := node.DeepCopy()
	again, err := r.observe(ctx, wanted, deployment, problem)
	if err != nil {
		return 0, err
	}
	if err := errors.Join(r.observeNetwork(wanted), r.observeClasses(wanted), r.observeStorage(wanted)); err != nil {
		return 0, err
	}
	// A cluster that cannot say what it serves is asked again, and what is known
	// of the rest is written meanwhile.
	kinds, kindsErr := r.observeKinds(ctx, wanted)
	if kindsErr != nil {
		wanted.Status.ReflectedKinds = node.Status.ReflectedKinds
	} else if again == 0 {
		again = kinds
	}
	_, err = r.commit(ctx, node, wanted)
	return again, errors.Join(kindsErr, err)
}

// cordon keeps pods off the Node while the ForeignCluster is cordoned. What
// somebody cordoned by hand stays so.
func (r *virtualNodes) cordon(ctx context.Context, virtual *v1alpha1.VirtualNode) error {
	fc, err := r.foreignCluster(naming.ForeignClusterOf(virtual.Namespace))
	if err != nil {
		return ignoreNotFound(err)
	}
	node, err := r.getNode(virtual.Spec.NodeName)
	if err != nil || !isOurs(node, virtual) {
		return ignoreNotFound(err)
	}
	// Who let go of it by hand as well leaves the annotation, by which a later
	// cordon would look like this one.
	if _, held := node.Annotations[v1alpha1.AnnotationCordoned]; fc.Spec.Cordoned && node.Spec.Unschedulable || !fc.Spec.Cordoned && !held {
		return nil
	}
	if err := r.hold(ctx, node, fc.Spec.Cordoned); err != nil {
		return fmt.Errorf("cordon node %s, or end that: %w", node.Name, err)
	}
	return nil
}

// problem says why no virtual kubelet can be deployed.
type problem struct{ reason, message string }

// deploy makes everything that a virtual kubelet needs.
func (r *virtualNodes) deploy(ctx context.Context, node *v1alpha1.VirtualNode) (*appsv1.Deployment, *problem, error) {
	if r.kubelet.Image == "" {
		return nil, &problem{ReasonNoImage, "The federation-controller-manager was started without --virtual-kubelet-image."}, nil
	}
	if _, err := r.getAccount(node.Namespace, kubeletName(node)); apierrors.IsNotFound(err) {
		if err := r.createAccount(ctx, newAccount(node)); err != nil && !apierrors.IsAlreadyExists(err) {
			return nil, nil, fmt.Errorf("make the service account of virtual node %s: %w", node.Name, err)
		}
	} else if err != nil {
		return nil, nil, err
	}
	binding := newBinding(node)
	found, err := r.getBinding(binding.Name)
	switch {
	case apierrors.IsNotFound(err):
		if err := r.createBinding(ctx, binding); err != nil && !apierrors.IsAlreadyExists(err) {
			return nil, nil, fmt.Errorf("bind the role of virtual node %s: %w", node.Name, err)
		}
	case err != nil:
		return nil, nil, err
	case !equality.Semantic.DeepEqual(found.Subjects, binding.Subjects):
		return nil, &problem{ReasonBindingOfAnother, fmt.Sprintf("ClusterRoleBinding %s is that of another virtual node: give this one another name.", binding.Name)}, nil
	}
	return r.ensureDeployment(ctx, node)
}

func (r *virtualNodes) ensureDeployment(ctx context.Context, node *v1alpha1.VirtualNode) (*appsv1.Deployment, *problem, error) {
	wanted, err := r.newDeployment(node, naming.ForeignClusterOf(node.Namespace))
	if err != nil {
		return nil, nil, err
	}
	found, err := r.getDeployment(wanted.Namespace, wanted.Name)
	switch {
	case apierrors.IsNotFound(err):
		if problem, err := r.mayBegin(node); problem != nil || err != nil {
			return nil, problem, err
		}
		if err := r.createDeployment(ctx, wanted); err != nil && !apierrors.IsAlreadyExists(err) {
			return nil, nil, fmt.Errorf("deploy the virtual kubelet of %s: %w", node.Name, err)
		}
		return nil, nil, nil
	case err != nil:
		return nil, nil, err
	case found.Annotations[annotationTemplate] != wanted.Annotations[annotationTemplate]:
		changed := found.DeepCopy()
		metav1.SetMetaDataAnnotation(&changed.ObjectMeta, annotationTemplate, wanted.Annotations[annotationTemplate])
		changed.Spec.Template = wanted.Spec.Template
		if err := r.updateDeployment(ctx, changed); err != nil {
			return nil, nil, fmt.Errorf("change the virtual kubelet of %s: %w", node.Name, err)
		}
	}
	return found, nil, nil
}

// mayBegin says why there is to be no Node yet: of a cluster that is cordoned a new
// one would take pods before it is cordoned as well.
func (r *virtualNodes) mayBegin(node *v1alpha1.VirtualNode) (*problem, error) {
	fc, err := r.foreignCluster(naming.ForeignClusterOf(node.Namespace))
	if err != nil || !fc.Spec.Cordoned {
		return nil, ignoreNotFound(err)
	}
	_, err = r.getNode(node.Spec.NodeName)
	if !apierrors.IsNotFound(err) {
		return nil, err
	}
	return &problem{ReasonCordoned, fmt.Sprintf("ForeignCluster %s is cordoned, and gets no new nodes meanwhile.", fc.Name)}, nil
}

// podsRetry is how soon the pods of a node are looked for that is watched for
// the first time; their arrival is an event, their absence is not.
const podsRetry = time.Second

// observe writes down how the virtual kubelet and the node stand.
func (r *virtualNodes) observe(ctx context.Context, node *v1alpha1.VirtualNode, deployment *appsv1.Deployment, problem *problem) (time.Duration, error) {
	node.Status.ObservedGeneration = node.Generation
	meta.SetStatusCondition(&node.Status.Conditions, kubeletCondition(node, deployment, problem))

	found, err := r.getNode(node.Spec.NodeName)
	if err != nil && !apierrors.IsNotFound(err) {
		return 0, err
	}
	if apierrors.IsNotFound(err) || !isOurs(found, node) {
		found = nil
	}
	meta.SetStatusCondition(&node.Status.Conditions, readyCondition(node, found))
	if found == nil {
		return 0, nil
	}
	pods, complete, err := r.pods(ctx, node.Spec.NodeName)
	if err != nil {
		return 0, fmt.Errorf("watch the pods of node %s: %w", node.Spec.NodeName, err)
	}
	if !complete {
		return podsRetry, nil
	}
	node.Status.Pods = 0
	for _, pod := range pods {
		if !podspec.Finished(pod) {
			node.Status.Pods++
		}
	}
	return 0, nil
}

// observeNetwork writes down whether the pods of this cluster and those of the
// provider reach each other.
func (r *virtualNodes) observeNetwork(node *v1alpha1.VirtualNode) error {
	fc, err := r.foreignCluster(naming.ForeignClusterOf(node.Namespace))
	if err != nil && !apierrors.IsNotFound(err) {
		return err
	}
	condition := metav1.Condition{
		Type: v1alpha1.ConditionNetworkReady, Status: metav1.ConditionFalse, ObservedGeneration: node.Generation, Reason: ReasonNoNetwork,
		Message: "There is no network between the pods of both clusters, see spec.networking of the ForeignCluster: endpoints of Services stay here.",
	}
	node.Status.Network = nil
	if err == nil && cmp.Or(fc.Spec.Networking, r.networking) == v1alpha1.NetworkingTunnel {
		tunnel, err := r.tunnel(fc.Name)
		if err != nil && !apierrors.IsNotFound(err) {
			return err
		}
		// Until it is agreed upon nothing is reached by any address.
		node.Status.Network = &v1alpha1.VirtualNodeNetwork{}
		if err == nil && tunnel.Spec.ClusterID == node.Spec.ClusterID {
			node.Status.Network.Local, node.Status.Network.Remote = tunnel.Spec.Local, tunnel.Spec.Remote
		}
	}
	if err == nil && fc.Status.Networking == v1alpha1.PeeringEstablished {
		condition.Status, condition.Reason = metav1.ConditionTrue, ReasonNetworkReady
		condition.Message = "The pods of both clusters reach each other."
	}
	meta.SetStatusCondition(&node.Status.Conditions, condition)
	return nil
}

// isOurs tells whether a Node stands for a virtual node, and is not one of
// this cluster's own that has its name.
func isOurs(node *corev1.Node, virtual *v1alpha1.VirtualNode) bool {
	return placement.NodeBelongs(node, virtual.Spec.ClusterID)
}

func kubeletCondition(node *v1alpha1.VirtualNode, deployment *appsv1.Deployment, problem *problem) metav1.Condition {
	condition := metav1.Condition{
		Type: v1alpha1.ConditionVirtualKubeletAvailable, Status: metav1.ConditionFalse, ObservedGeneration: node.Generation,
		Reason: ReasonDeploying, Message: fmt.Sprintf("Deployment %s is coming up.", kubeletName(node)),
	}
	switch {
	case problem != nil:
		condition.Reason, condition.Message = problem.reason, problem.message
	case deployment != nil && deployment.Status.AvailableReplicas > 0:
		condition.Status, condition.Reason = metav1.ConditionTrue, ReasonKubeletAvailable
		condition.Message = fmt.Sprintf("Deployment %s is available.", deployment.Name)
	}
	return condition
}

func readyCondition(virtual *v1alpha1.VirtualNode, node *corev1.Node) metav1.Condition {
	condition := metav1.Condition{
		Type: v1alpha1.ConditionReady, Status: metav1.ConditionFalse, ObservedGeneration: virtual.Generation,
		Reason: ReasonNodeMissing, Message: fmt.Sprintf("Node %s is not there yet.", virtual.Spec.NodeName),
	}
	if node == nil {
		return condition
	}
	condition.Reason, condition.Message = ReasonNodeNotReady, fmt.Sprintf("Node %s is not Ready.", node.Name)
	for _, c := range node.Status.Conditions {
		if c.Type != corev1.NodeReady {
			continue
		}
		condition.Status = metav1.ConditionStatus(c.Status)
		if c.Status == corev1.ConditionTrue {
			condition.Reason, condition.Message = ReasonNodeReady, fmt.Sprintf("Node %s is Ready.", node.Name)
		} else if c.Message != "" {
			condition.Message = fmt.Sprintf("Node %s is not Ready: %s", node.Name, c.Message)
		}
	}
	return condition
}
