// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/test/bench/figures"
	"liqo.io/federation/test/harness"
)

const (
	// endpoints is the number of local pods of each Service.
	endpoints = 100
	// services is the number of Services that are created in one run, one after the other.
	services = 30
	// endpointsBudget is the maximal time, in milliseconds, until all endpoints of a new Service
	// are on the provider.
	endpointsBudget = 1000.0
)

// serviceSample has, for each Service of a run, the time from its creation until the EndpointSlices
// of the consumer and of the provider had all endpoints.
type serviceSample struct{ local, remote []time.Duration }

// measureServices creates Services with local pods, whose endpoints are reflected to the provider.
// Endpoints are reflected only while there is a network, so it sets networking on both clusters
// until it returns. No packet is sent to the endpoints.
func (b *bench) measureServices(ctx context.Context) (rows []row, err error) {
	defer func() {
		// The context of the run may be cancelled.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
		defer cancel()
		err = errors.Join(err, b.networking(ctx, "null"))
	}()
	if err := b.networking(ctx, `"`+string(v1alpha1.NetworkingFlat)+`"`); err != nil {
		return nil, err
	}
	pods, err := watchPods(ctx, b.rome, serving, nil)
	if err != nil {
		return nil, err
	}
	defer pods.stop()
	client := b.rome.Kube.AppsV1().Deployments(serving)
	deployment := deployment(endpoints, onLocal)
	if _, err := client.Create(ctx, deployment, metav1.CreateOptions{}); unless(apierrors.IsAlreadyExists, err) != nil {
		return nil, err
	}
	if _, err := pods.until(ctx, fmt.Sprintf("%d Ready pods in %s", endpoints, serving),
		func(_, ready int) bool { return ready == endpoints }); err != nil {
		return nil, err
	}
	local, err := watchSlices(ctx, b.rome, serving)
	if err != nil {
		return nil, err
	}
	defer local.stop()
	remote, err := watchSlices(ctx, b.milan, b.servingRemote)
	if err != nil {
		return nil, err
	}
	defer remote.stop()
	// The first Service is not measured, because it waits until both clusters have observed the
	// network.
	if err := b.serve(ctx, "first", local, remote, &serviceSample{}); err != nil {
		return nil, err
	}
	var samples []serviceSample
	for run := range b.options.runs {
		if err := b.quiet(ctx); err != nil {
			return nil, err
		}
		var s serviceSample
		for i := range services {
			if err := b.serve(ctx, fmt.Sprintf("service-%d-%d", run, i), local, remote, &s); err != nil {
				return nil, err
			}
		}
		fmt.Fprintf(os.Stderr, "%d Services of %d endpoints, run %d: p50 %.0f ms on the consumer, %.0f ms on the provider\n",
			services, endpoints, run+1,
			milliseconds(percentile(s.local, 50)), milliseconds(percentile(s.remote, 50)))
		samples = append(samples, s)
	}
	if err := client.Delete(ctx, deployment.Name,
		metav1.DeleteOptions{PropagationPolicy: ptr.To(metav1.DeletePropagationBackground)}); err != nil {
		return nil, err
	}
	_, err = pods.until(ctx, "no pods in "+serving, func(all, _ int) bool { return all == 0 })
	return serviceRows(samples), err
}

func serviceRows(samples []serviceSample) []row {
	var rows []row
	for _, percent := range []int{50, 99} {
		var local, remote figures.Series
		for _, s := range samples {
			local = append(local, milliseconds(percentile(s.local, percent)))
			remote = append(remote, milliseconds(percentile(s.remote, percent)))
		}
		budget := "–"
		if percent == 99 {
			budget = figures.AtMost(remote.Median(), endpointsBudget, " ms")
		}
		rows = append(rows, row{
			fmt.Sprintf("Service of %d endpoints created → all in EndpointSlices of consumer and provider, p%d",
				endpoints, percent),
			fmt.Sprint(endpoints), local.Format(" ms"), remote.Format(" ms"),
			fmt.Sprintf("%.2f×", remote.Median()/local.Median()), budget,
		})
	}
	return rows
}

// serve creates a Service, appends its times to s, and deletes it.
func (b *bench) serve(ctx context.Context, name string, local, remote *sliceWatch, s *serviceSample) error {
	client := b.rome.Kube.CoreV1().Services(serving)
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.ServiceSpec{
		Selector: deployment(endpoints, onLocal).Spec.Selector.MatchLabels, Ports: []corev1.ServicePort{{Port: 80}},
	}}
	created := time.Now()
	if _, err := client.Create(ctx, service, metav1.CreateOptions{}); err != nil {
		return err
	}
	for _, side := range []struct {
		watch  *sliceWatch
		result *[]time.Duration
	}{{local, &s.local}, {remote, &s.remote}} {
		complete, err := side.watch.until(ctx, name, endpoints)
		if err != nil {
			return err
		}
		*side.result = append(*side.result, complete.Sub(created))
	}
	if err := client.Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
		return err
	}
	_, err := remote.until(ctx, name, 0)
	return err
}

// networking sets spec.networking of the ForeignCluster of the peer in both clusters. mode is a JSON value.
func (b *bench) networking(ctx context.Context, mode string) error {
	patch := []byte(`{"spec":{"networking":` + mode + `}}`)
	for _, side := range []struct{ of, about *harness.Cluster }{{b.rome, b.milan}, {b.milan, b.rome}} {
		if _, err := side.of.Federation.FederationV1alpha1().ForeignClusters().Patch(ctx, side.about.Name,
			types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
			return fmt.Errorf("networking %s on %s: %w", mode, side.of.Name, err)
		}
	}
	return nil
}

// sliceWatch watches the EndpointSlices of a namespace.
type sliceWatch struct {
	namespace string
	stop      func()
	slices    cache.Store
	changed   chan struct{}
}

func watchSlices(ctx context.Context, c *harness.Cluster, namespace string) (*sliceWatch, error) {
	ctx, cancel := context.WithCancel(ctx)
	informer := informers.NewSharedInformerFactoryWithOptions(c.Kube, 0,
		informers.WithNamespace(namespace)).Discovery().V1().EndpointSlices().Informer()
	w := &sliceWatch{namespace: namespace, stop: cancel, slices: informer.GetStore(), changed: make(chan struct{}, 1)}
	changed := func(any) {
		select {
		case w.changed <- struct{}{}:
		default:
		}
	}
	handler := cache.ResourceEventHandlerFuncs{AddFunc: changed, UpdateFunc: func(_, slice any) { changed(slice) },
		DeleteFunc: changed}
	if _, err := informer.AddEventHandler(handler); err != nil {
		cancel()
		return nil, err
	}
	go informer.RunWithContext(ctx)
	if !cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
		cancel()
		return nil, fmt.Errorf("the EndpointSlices of %s on %s cannot be listed: %w", namespace, c.Name, ctx.Err())
	}
	return w, nil
}

// until waits until a Service has this number of ready endpoints, and returns the time.
func (w *sliceWatch) until(ctx context.Context, service string, wanted int) (time.Time, error) {
	timer := time.NewTimer(patience)
	defer timer.Stop()
	for {
		ready := w.ready(service)
		if ready == wanted {
			return time.Now(), nil
		}
		select {
		case <-w.changed:
		case <-ctx.Done():
			return time.Time{}, ctx.Err()
		case <-timer.C:
			return time.Time{}, fmt.Errorf("waited %s for %d endpoints of Service %s in %s; there are %d", patience, wanted,
				service, w.namespace, ready)
		}
	}
}

func (w *sliceWatch) ready(service string) int {
	addresses := map[string]bool{}
	for _, object := range w.slices.List() {
		slice := object.(*discoveryv1.EndpointSlice)
		if slice.Labels[discoveryv1.LabelServiceName] != service {
			continue
		}
		for _, endpoint := range slice.Endpoints {
			if ptr.Deref(endpoint.Conditions.Ready, true) {
				for _, address := range endpoint.Addresses {
					addresses[address] = true
				}
			}
		}
	}
	return len(addresses)
}
