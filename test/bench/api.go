// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"golang.org/x/sync/errgroup"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
)

const (
	// apiNamespace is the namespace of the measured objects. It is not the tenant namespace of a
	// peering, so controllers ignore the ResourceOffers in it.
	apiNamespace = "bench-api"
	apiUser      = "bench"
	apiClusterID = "0c9e8d7f-1a2b-4c3d-8e4f-5a6b7c8d9e0f"
	// objects is the number of objects that one client creates, reads and changes in a run.
	objects = 1000
	// objectsOfMany is the number of objects that 16 clients together create, read and change in a run. A run then takes
	// about six seconds, long enough for garbage collection to affect each run equally.
	objectsOfMany = 3000
	// lists is the number of times that one client lists all objects in a run.
	lists = 20
)

// The compared resources: one of the federation's API, and a custom resource with the same schema.
var (
	ourResource = schema.GroupVersionResource{Group: v1alpha1.GroupName, Version: v1alpha1.SchemeGroupVersion.Version,
		Resource: "resourceoffers"}
	customResource = schema.GroupVersionResource{Group: "bench.example.com", Version: "v1", Resource: ourResource.Resource}
)

const ourKind = "ResourceOffer"

// apiSample has the latencies of one operation on one resource with a number of concurrent clients.
type apiSample struct {
	operation string
	clients   int
	resource  schema.GroupVersionResource
	latencies []time.Duration
}

// p99 returns the 99th percentile of the latencies, in milliseconds.
func (s apiSample) p99() float64 {
	return milliseconds(percentile(s.latencies, 99))
}

// rate returns the number of requests per second. Each client sends its next request when the
// previous one is answered.
func (s apiSample) rate() float64 {
	var waited time.Duration
	for _, latency := range s.latencies {
		waited += latency
	}
	return float64(s.clients) * float64(len(s.latencies)) / waited.Seconds()
}

// measureAPI compares a resource of the federation's API with a custom resource of the same schema, on the API server
// of cluster rome, the consumer, and as a user with a Role. One client alternates between the two resources, so that
// both latencies are measured under the same conditions. 16 clients send all requests for one resource, and then all
// for the other.
func (b *bench) measureAPI(ctx context.Context) ([]apiSample, error) {
	client, err := b.apiClient(ctx)
	if err != nil {
		return nil, err
	}
	var samples []apiSample
	for run := range b.options.runs {
		for _, part := range []struct {
			clients   int
			resources []schema.GroupVersionResource
		}{
			{1, []schema.GroupVersionResource{customResource, ourResource}},
			{16, []schema.GroupVersionResource{customResource}},
			{16, []schema.GroupVersionResource{ourResource}},
		} {
			if err := b.quiet(ctx); err != nil {
				return nil, err
			}
			more, err := sendAll(ctx, client, part.clients, part.resources...)
			if err != nil {
				return nil, err
			}
			for _, s := range more {
				fmt.Fprintf(os.Stderr, "API of %s, run %d, %2d clients: %-6s p99 %.1f ms, %.0f/s\n", s.resource.Group, run+1,
					s.clients, s.operation, s.p99(), s.rate())
			}
			samples = append(samples, more...)
		}
	}
	return samples, nil
}

// sendAll creates, gets, lists, updates and deletes objects of each resource.
func sendAll(ctx context.Context, client dynamic.Interface, clients int,
	resources ...schema.GroupVersionResource) ([]apiSample, error) {
	objects, lists := objects, lists
	if clients > 1 {
		objects, lists = objectsOfMany, 0
	}
	var asked [][]operation
	for _, resource := range resources {
		asked = append(asked, operations(client.Resource(resource).Namespace(apiNamespace), resource, objects, lists))
	}
	var samples []apiSample
	for step := range asked[0] {
		name, count := asked[0][step].name, asked[0][step].count
		if count == 0 {
			continue
		}
		var requests []request
		for _, operations := range asked {
			requests = append(requests, operations[step].send)
		}
		latencies, err := send(ctx, count, clients, requests...)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		for i, resource := range resources {
			samples = append(samples, apiSample{name, clients, resource, latencies[i]})
		}
	}
	for _, resource := range resources {
		if err := client.Resource(resource).Namespace(apiNamespace).DeleteCollection(ctx, metav1.DeleteOptions{},
			metav1.ListOptions{}); err != nil {
			return nil, fmt.Errorf("delete all %s: %w", resource.GroupResource(), err)
		}
	}
	return samples, nil
}

// request sends the i-th request of an operation.
type request func(ctx context.Context, i int) error

// operation is one kind of request, and the number of times that it is sent.
type operation struct {
	name  string
	count int
	send  request
}

// operations returns the operations on one resource in the order in which they run.
func operations(client dynamic.ResourceInterface, resource schema.GroupVersionResource, objects,
	lists int) []operation {
	made := make([]*unstructured.Unstructured, objects)
	return []operation{
		{"create", objects, func(ctx context.Context, i int) (err error) {
			made[i], err = client.Create(ctx, offer(resource, i), metav1.CreateOptions{})
			return err
		}},
		{"get", objects, func(ctx context.Context, i int) error {
			_, err := client.Get(ctx, made[i].GetName(), metav1.GetOptions{})
			return err
		}},
		{"list", lists, func(ctx context.Context, _ int) error {
			_, err := client.List(ctx, metav1.ListOptions{})
			return err
		}},
		{"update", objects, func(ctx context.Context, i int) error {
			changed := made[i].DeepCopy()
			if err := unstructured.SetNestedField(changed.Object, "2", "spec", "resources", "cpu"); err != nil {
				return err
			}
			_, err := client.Update(ctx, changed, metav1.UpdateOptions{})
			return err
		}},
	}
}

// send sends every request count times and returns the latencies by request. The clients send
// concurrently, and each waits for an answer before it sends its next request.
func send(ctx context.Context, count, clients int, requests ...request) ([][]time.Duration, error) {
	latencies := make([][]time.Duration, len(requests))
	for which := range requests {
		latencies[which] = make([]time.Duration, count)
	}
	group, ctx := errgroup.WithContext(ctx)
	for first := range clients {
		group.Go(func() error {
			for i := first; i < count; i += clients {
				for which, request := range requests {
					sent := time.Now()
					if err := request(ctx, i); err != nil {
						return err
					}
					latencies[which][i] = time.Since(sent)
				}
			}
			return nil
		})
	}
	return latencies, group.Wait()
}

func offer(resource schema.GroupVersionResource, i int) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": resource.GroupVersion().String(),
		"kind":       ourKind,
		"metadata":   map[string]any{"name": fmt.Sprintf("offer-%d", i), "namespace": apiNamespace},
		"spec":       map[string]any{"clusterID": apiClusterID, "resources": map[string]any{"cpu": "1", "memory": "1Gi", "pods": "10"}},
	}}
}

// apiClient creates the custom resource, the namespace and a user that may do everything with
// objects of both resources in it, and returns a client of this user.
func (b *bench) apiClient(ctx context.Context) (dynamic.Interface, error) {
	if err := b.makeCRD(ctx); err != nil {
		return nil, fmt.Errorf("creating a custom resource with the schema of %s: %w", ourResource.GroupResource(), err)
	}
	meta := metav1.ObjectMeta{Name: apiUser, Namespace: apiNamespace}
	_, err := b.rome.Kube.CoreV1().Namespaces().Create(ctx,
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: apiNamespace}}, metav1.CreateOptions{})
	if err := unless(apierrors.IsAlreadyExists, err); err != nil {
		return nil, err
	}
	accounts := b.rome.Kube.CoreV1().ServiceAccounts(apiNamespace)
	_, err = accounts.Create(ctx, &corev1.ServiceAccount{ObjectMeta: meta}, metav1.CreateOptions{})
	if err := unless(apierrors.IsAlreadyExists, err); err != nil {
		return nil, err
	}
	_, err = b.rome.Kube.RbacV1().Roles(apiNamespace).Create(ctx,
		&rbacv1.Role{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{{
			APIGroups: []string{ourResource.Group, customResource.Group}, Resources: []string{ourResource.Resource},
			Verbs: []string{"get", "list", "create", "update", "deletecollection"},
		}}}, metav1.CreateOptions{})
	if err := unless(apierrors.IsAlreadyExists, err); err != nil {
		return nil, err
	}
	_, err = b.rome.Kube.RbacV1().RoleBindings(apiNamespace).Create(ctx, &rbacv1.RoleBinding{ObjectMeta: meta,
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Name: apiUser, Namespace: apiNamespace}},
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: apiUser},
	}, metav1.CreateOptions{})
	if err := unless(apierrors.IsAlreadyExists, err); err != nil {
		return nil, err
	}
	token, err := accounts.CreateToken(ctx, apiUser, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		return nil, err
	}
	config := rest.AnonymousClientConfig(b.rome.Config)
	config.BearerToken, config.QPS = token.Status.Token, -1
	return dynamic.NewForConfig(config)
}

// unless returns err, or nil if harmless(err) is true.
func unless(harmless func(error) bool, err error) error {
	if harmless(err) {
		return nil
	}
	return err
}
