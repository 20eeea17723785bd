// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package world

import (
	"context"
	"encoding/base64"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	kubefake "k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	federationfake "liqo.io/federation/generated/clientset/versioned/fake"
	"liqo.io/federation/netagent/agent"
	"liqo.io/federation/netagent/model"
	"liqo.io/federation/test/fakes"
)

// Installation is the installation namespace of every cluster.
const Installation = "liqo"

// API has the fake clients of the agents of one cluster.
type API struct {
	Kube       *kubefake.Clientset
	Federation *federationfake.Clientset
}

// NewAPI returns the API of a cluster with its nodes, its ClusterInfo, the workloads of the agents, the Secret with the
// private key in the Input of the cluster, and the given objects of the federation API.
func NewAPI(c *Cluster, federation ...runtime.Object) *API {
	objects := []runtime.Object{
		&appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: agent.GatewayName, Namespace: Installation}},
		&appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Name: agent.RouteName, Namespace: Installation}},
		secretOf(c.Input.PrivateKey),
	}
	for i, n := range c.Input.Nodes {
		o := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: n.Name, CreationTimestamp: metav1.Unix(int64(i), 0)}}
		for _, a := range n.Addresses {
			o.Status.Addresses = append(o.Status.Addresses, corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: a.String()})
		}
		for _, p := range n.PodCIDRs {
			o.Spec.PodCIDRs = append(o.Spec.PodCIDRs, p.String())
		}
		objects = append(objects, o)
	}
	info := &v1alpha1.ClusterInfo{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.ClusterInfoName}}
	for _, p := range c.Input.PodCIDRs {
		info.Status.Ranges = append(
			info.Status.Ranges,
			v1alpha1.ClusterRange{Use: v1alpha1.RangeOfPods, CIDR: p.String(), Source: v1alpha1.SourceValue},
		)
	}
	info.Status.Ranges = append(
		info.Status.Ranges,
		v1alpha1.ClusterRange{Use: v1alpha1.RangeExternal, CIDR: "10.70.0.0/16", Source: v1alpha1.SourceValue},
	)
	a := &API{
		Kube:       kubefake.NewSimpleClientset(objects...),
		Federation: federationfake.NewSimpleClientset(append(federation, info)...),
	}
	// Leader election relies on conflicts of resource versions, which the fake client does not check.
	version := 0
	fakes.React(a.Kube, "*", "leases", func(action clienttesting.Action) (bool, runtime.Object, error) {
		var lease *coordinationv1.Lease
		switch write := action.(type) {
		case clienttesting.CreateAction:
			lease = write.GetObject().(*coordinationv1.Lease)
		default:
			return false, nil, nil
		}
		if action.GetVerb() == "update" {
			known, err := a.Kube.Tracker().Get(action.GetResource(), Installation, lease.Name)
			if err != nil {
				return true, nil, err
			}
			if known.(*coordinationv1.Lease).ResourceVersion != lease.ResourceVersion {
				return true, nil, apierrors.NewConflict(schema.GroupResource{Resource: "leases"}, lease.Name, nil)
			}
		}
		version++
		lease.ResourceVersion = fmt.Sprint(version)
		return false, nil, nil
	})
	return a
}

// secretOf returns the Secret with a private key of the gateway.
func secretOf(key model.PrivateKey) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.WireGuardSecret, Namespace: Installation},
		Type:       v1alpha1.SecretTypeWireGuard,
		Data: map[string][]byte{
			v1alpha1.WireGuardPrivateKey: []byte(base64.StdEncoding.EncodeToString(key[:])),
			v1alpha1.WireGuardPublicKey:  []byte(key.Public().String()),
		},
	}
}

// SetKey replaces the private key of the gateways.
func (a *API) SetKey(ctx context.Context, key model.PrivateKey) error {
	_, err := a.Kube.CoreV1().Secrets(Installation).Update(ctx, secretOf(key), metav1.UpdateOptions{})
	return err
}

// PublicKey returns the public key that the active gateway published; empty if there is none.
func (a *API) PublicKey(ctx context.Context) (string, error) {
	published, err := a.Kube.CoreV1().ConfigMaps(Installation).Get(ctx, v1alpha1.WireGuardConfigMap, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	return published.Data[v1alpha1.WireGuardPublicKey], nil
}

// AddGatewayPod creates the pod of the gateway on a node.
func (a *API) AddGatewayPod(ctx context.Context, node string) error {
	_, err := a.Kube.CoreV1().Pods(Installation).Create(ctx, &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name:   "federation-gateway-" + node,
			Labels: map[string]string{"app.kubernetes.io/name": agent.GatewayName},
		},
		Spec: corev1.PodSpec{NodeName: node},
	}, metav1.CreateOptions{})
	return err
}

// Tunnel returns the TunnelEndpoint with this name.
func (a *API) Tunnel(ctx context.Context, name string) (*v1alpha1.TunnelEndpoint, error) {
	return a.Federation.FederationV1alpha1().TunnelEndpoints(Installation).Get(ctx, name, metav1.GetOptions{})
}

// EndpointOf returns the TunnelEndpoint of a peer. Each pair is a CIDR and its remapped CIDR.
func EndpointOf(
	name string,
	public model.PublicKey,
	endpoints []string,
	local, remote [][2]string,
) *v1alpha1.TunnelEndpoint {
	mappings := func(pairs [][2]string) []v1alpha1.CIDRMapping {
		var all []v1alpha1.CIDRMapping
		for _, p := range pairs {
			all = append(all, v1alpha1.CIDRMapping{CIDR: p[0], Mapped: p[1]})
		}
		return all
	}
	return &v1alpha1.TunnelEndpoint{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: Installation, Generation: 1},
		Spec: v1alpha1.TunnelEndpointSpec{
			ClusterID: "id-of-" + name, PublicKey: public.String(), Endpoints: endpoints, MTU: TunnelMTU,
			Local: mappings(local), Remote: mappings(remote),
		},
	}
}
