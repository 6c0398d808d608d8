# Alpine has musl: npm takes @ztensor/linux-x64-musl or @ztensor/linux-arm64-musl. Both stages have the same libc.
FROM node:24-alpine AS packages
WORKDIR /app
COPY package.json package-lock.json ./
RUN npm ci --omit=dev

FROM node:24-alpine
WORKDIR /app
COPY --from=packages /app/node_modules ./node_modules
COPY . .
# The user `node` of the image, as a number, so that Kubernetes can see that it is not root.
USER 1000
CMD ["node", "main.mjs"]
